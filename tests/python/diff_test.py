"""What changed between two runs, as `diff` tells it."""

import json
from pathlib import Path
from typing import Any

from conftest import TRACES, Answer, Run, write_run


def test_a_change_is_told_by_its_line_of_code(answer: Answer, stweaver: Run, tmp_path: Path) -> None:
    before = write_run(tmp_path / "before.pickle", {"embed": 1 << 20, "attend": 3 << 20})
    now = write_run(tmp_path / "now.pickle", {"embed": 1 << 20, "attend": 5 << 20, "log": 4096})
    told = answer("diff", before, now)
    assert told["peak"] == {"a": 4 << 20, "b": (6 << 20) + 4096}
    assert told["matched_by"] == "line"
    (grown,) = told["grown"]
    assert (grown["what"], grown["bytes"]) == ("attend (job/train.py:2)", {"a": 3 << 20, "b": 5 << 20})
    assert [change["what"] for change in told["new"]] == ["log (job/train.py:3)"]
    assert told["gone"] == told["shrunk"] == []
    assert "attend (job/train.py:2)" in stweaver("diff", before, now, "--top", "1").stdout


def test_the_changes_of_real_jobs_sum_up(answer: Answer) -> None:
    told: dict[str, Any] = answer("diff", TRACES / "llama7b_N.pickle.xz", TRACES / "llama7b_R.pickle.xz")
    changes = told["grown"] + told["shrunk"] + told["new"] + told["gone"]
    growth = sum(change["bytes"]["b"] - change["bytes"]["a"] for change in changes)
    assert growth == told["peak"]["b"] - told["peak"]["a"] < 0


def test_writes_a_page_in_which_no_text_is_html(answer: Answer, tmp_path: Path) -> None:
    markup, page = "</script><img src=x onerror=alert(1)>", tmp_path / "diff.html"
    runs = [write_run(tmp_path / f"run{size}.pickle", {markup: size}) for size in (1 << 20, 2 << 20)]
    assert answer("diff", *runs, "-o", page)["file"] == str(page)
    html = page.read_text()
    assert "<img" not in html
    assert html.count("</script>") == html.count("<script")
    facts = json.loads(html.split('id="facts">')[1].split("</script>")[0])
    assert facts["changes"][0]["what"].startswith(markup)
    assert [run["name"] for run in facts["runs"]] == ["run1048576", "run2097152"]


def test_refuses_what_is_no_trace(stweaver: Run, tmp_path: Path) -> None:
    good, bad = write_run(tmp_path / "good.pickle", {"f": 1}), tmp_path / "bad.pickle"
    bad.write_text("no snapshot")
    for arguments in [(good, bad), (bad, good), (good, tmp_path / "missing.pickle")]:
        result = stweaver("diff", *arguments)
        assert (result.returncode, result.stdout) == (2, "")
        assert len(result.stderr.splitlines()) == 1
