"""The page of `advise` in a real browser, with and without a mouse."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import chromium
from browser_test import LIGHTNESS, Colors, Opened, look, select
from conftest import Run
from playwright.sync_api import Browser, Locator, Page

ASKED = ["advise", "llama3_8b", "--gpus", "16", "--gpu", "h100", "--choices", "5"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start one browser for all tests."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def file(stweaver: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a front."""
    file = tmp_path_factory.mktemp("front") / "front.html"
    result = stweaver(*ASKED, "-o", file)
    assert result.returncode == 0, result.stderr
    assert str(file) in result.stdout
    return file


@pytest.fixture(scope="module")
def window(browser: Browser, file: Path) -> Iterator[Page]:
    """Open it, for several tests."""
    opened = Opened(browser, file)
    yield opened.page
    opened.close()


@pytest.fixture
def page(window: Page) -> Page:
    """Give the front as it is when it is opened."""
    window.get_by_role("button", name="show all choices").click()
    kept(window).first.get_by_role("button").click()
    return window


def kept(page: Page) -> Locator:
    """Find the choices that are not brushed away."""
    return page.get_by_role("region", name="choices, by their numbers").locator("tbody tr")


def facts_of(file: Path) -> Any:  # noqa: ANN401  (a JSON document)
    """Parse the facts of a page."""
    return json.loads(file.read_text().split('id="facts">')[1].split("</script>")[0])


def chosen(page: Page) -> str:
    return page.locator("p.chosen").inner_text()


def axis(page: Page, name: str) -> Locator:
    return page.get_by_role("group", name=f"{name}: ")


@pytest.mark.parametrize("colors", ["light", "dark"])
def test_a_front_is_drawn_without_a_complaint_or_a_network(
    browser: Browser, file: Path, colors: Colors
) -> None:
    opened = Opened(browser, file, colors)
    page = opened.page
    assert look(page.locator("canvas.curves"))["colors"] > 10
    lightness = page.evaluate(LIGHTNESS)
    assert lightness < 64 if colors == "dark" else lightness > 192
    marks = page.locator("svg.scatter g.choice").count()
    assert marks == page.locator("svg.front:not(.scatter) g.choice").count() == kept(page).count() > 5
    assert "offload" in " ".join(kept(page).all_inner_texts())
    opened.close()


def test_a_front_fits_into_a_narrow_window_and_names_what_it_shows(browser: Browser, file: Path) -> None:
    opened = Opened(browser, file, width=420)
    page = opened.page
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 420
    assert page.get_by_role("heading", level=1).count() == 1
    assert len(page.locator("canvas").get_attribute("aria-label") or "") > 40
    for group in page.locator("svg.front, g.axis").all():
        assert len(group.get_attribute("aria-label") or "") > 20
    assert page.get_by_role("button").count() == page.locator("button[aria-label]").count() > 0
    opened.close()


def test_a_front_is_small_and_has_the_choices_of_the_text(stweaver: Run, tmp_path: Path) -> None:
    file = tmp_path / "large.html"
    result = stweaver("advise", "llama3_70b", "--gpus", "256", "--gpu", "h100", "--json", "-o", file)
    assert file.stat().st_size < 2_000_000
    answer = json.loads(result.stdout)
    assert answer["file"] == str(file)
    facts = facts_of(file)
    numbered = [choice for choice in facts["choices"] if "number" in choice]
    assert [choice["configuration"] for choice in numbered] == [
        choice["configuration"] for choice in answer["choices"]
    ]
    assert facts["front"] == answer["front"] > len(facts["choices"]) > len(numbered)
    for choice in facts["choices"]:  # the curves are those of the ranks whose memory is told
        assert 1 <= len(choice["stages"]) <= 8
        assert choice["stage"] in [stage["stage"] for stage in choice["stages"]]


def test_a_keyboard_brushes_an_axis_and_lets_go(page: Page) -> None:
    everything = kept(page).count()
    gpus = axis(page, "GPUs")
    gpus.focus()
    gpus.press("ArrowDown")
    fewer = kept(page).count()
    assert 0 < fewer < everything
    assert "8" in (gpus.get_attribute("aria-label") or "")
    assert page.locator("svg.scatter g.choice.kept").count() == fewer
    gpus.press("ArrowUp")
    gpus.press("Shift+ArrowUp")
    assert 0 < kept(page).count() < everything
    gpus.press("0")
    assert kept(page).count() == everything


def test_an_axis_keeps_the_keyboard_while_the_page_becomes_shorter(page: Page) -> None:
    height = "() => document.documentElement.offsetHeight"
    before = page.evaluate(height)
    gpus = axis(page, "GPUs")
    for _ in range(4):
        gpus.press("ArrowDown")
    while page.evaluate(height) == before:
        axis(page, "memory").press("ArrowDown")
    look(page.locator("canvas.curves"))  # after the page has found its new height
    assert page.evaluate("() => document.activeElement.classList.contains('axis')")


def test_a_pointer_brushes_an_axis_and_a_button_shows_all(page: Page) -> None:
    everything = kept(page).count()
    grip = axis(page, "s/step").locator(".grip")
    grip.scroll_into_view_if_needed()
    box = grip.bounding_box()
    assert box
    page.mouse.move(box["x"] + 16, box["y"] + 0.95 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 16, box["y"] + 0.6 * box["height"], steps=4)
    page.mouse.up()
    assert page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle") == "none"
    assert 0 < kept(page).count() < everything
    page.get_by_role("button", name="show all choices").click()
    assert kept(page).count() == everything


def test_a_rectangle_in_the_scatter_keeps_what_lies_in_it(page: Page) -> None:
    everything = kept(page).count()
    scatter = page.locator("svg.scatter")
    scatter.scroll_into_view_if_needed()
    box = scatter.bounding_box()
    assert box
    page.mouse.move(box["x"] + 90, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.8 * box["height"], steps=4)
    page.mouse.up()
    assert 0 < kept(page).count() < everything


def test_a_click_shows_a_choice_with_its_memory_and_its_flags(page: Page) -> None:
    before = chosen(page), look(page.locator("canvas.curves"))["sum"], page.locator("pre").first.inner_text()
    page.locator("svg.scatter g.choice .shape").nth(3).click()
    after = chosen(page), look(page.locator("canvas.curves"))["sum"], page.locator("pre").first.inner_text()
    assert all(a != b for a, b in zip(before, after, strict=True))
    assert "--micro-batch-size" in after[2]
    whole = "pre => pre.scrollHeight <= pre.clientHeight + 1"  # no argument is out of sight
    assert page.locator("pre").first.evaluate(whole)
    kept(page).nth(2).get_by_role("button").click()
    assert chosen(page).startswith("Choice 3: ")
    assert "would reserve" in page.locator("section", has=page.locator("#chosen")).inner_text()


def test_no_choice_lies_under_the_reach_of_another(page: Page) -> None:
    hidden = """svg => {
      const shapes = [...svg.querySelectorAll('g.choice .shape')];
      const middle = (shape) => {
        const box = shape.getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2];
      };
      return shapes.filter((shape) => {
        const [x, y] = middle(shape);
        const hit = document.elementFromPoint(x, y)?.closest('g.choice');
        const [u, v] = middle(hit.querySelector('.shape'));
        return hit !== shape.parentNode && Math.hypot(u - x, v - y) > shape.getBoundingClientRect().width / 2;
      }).length;
    }"""
    page.locator("svg.scatter").scroll_into_view_if_needed()
    assert page.locator("svg.scatter").evaluate(hidden) == 0


def test_arrow_keys_go_from_choice_to_choice(page: Page) -> None:
    scatter = page.locator("svg.scatter")
    scatter.focus()
    seen = [chosen(page)]
    for key in ["ArrowRight", "ArrowRight", "ArrowLeft"]:
        scatter.press(key)
        seen.append(chosen(page))
    assert len(set(seen)) == 3
    assert seen[1] == seen[3]


def test_the_scatter_is_of_any_two_measures(page: Page) -> None:
    select(page, "Across").select_option(label="GPUs")
    assert "over GPUs" in (page.locator("svg.scatter").get_attribute("aria-label") or "")


def test_a_front_of_nothing_says_so(browser: Browser, stweaver: Run, tmp_path: Path) -> None:
    file = tmp_path / "nothing.html"
    assert stweaver("advise", "llama31_405b", "--gpus", "1", "--gpu", "h100", "-o", file).returncode == 1
    opened = Opened(browser, file)
    assert "more GPUs" in opened.page.locator("main").inner_text()
    opened.close()


def changed(file: Path, **facts: object) -> Path:
    """Write a page with other facts."""
    head, rest = file.read_text().split('id="facts">')
    written, tail = rest.split("</script>", 1)
    other = file.with_suffix(".changed.html")
    changed_facts = json.dumps(json.loads(written) | facts)
    other.write_text(f'{head}id="facts">{changed_facts}</script>{tail}')
    return other


def test_a_front_that_was_stopped_says_so(browser: Browser, file: Path) -> None:
    some: list[object] = facts_of(file)["choices"]
    for choices, sentence in [(some, "stopped early after"), ([], "none of which fits")]:
        opened = Opened(browser, changed(file, stopped=True, choices=choices))
        text = opened.page.locator("main").inner_text()
        assert sentence in text
        assert "from all" not in text
        assert "more GPUs" not in text
        opened.close()


def test_numbers_of_gpus_are_told_in_full(browser: Browser, stweaver: Run, tmp_path: Path) -> None:
    file = tmp_path / "many.html"
    assert stweaver("advise", "llama3_8b", "--gpus", "2056", "--gpu", "h100", "-o", file).returncode == 0
    opened = Opened(browser, file)
    label = axis(opened.page, "GPUs").get_attribute("aria-label") or ""
    most = max(choice["configuration"]["gpus"] for choice in facts_of(file)["choices"])
    assert most > 1000
    assert f" to {most:,}." in label
    opened.close()


def test_a_brush_ends_when_its_button_was_let_go_elsewhere(page: Page) -> None:
    everything = kept(page).count()
    grip = axis(page, "s/step").locator(".grip")
    grip.scroll_into_view_if_needed()
    box = grip.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 0.5 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] + 3, box["y"] + 0.5 * box["height"])
    page.mouse.up()
    page.mouse.move(box["x"] + 16, box["y"] + 0.9 * box["height"], steps=4)
    assert kept(page).count() == everything


def test_a_single_choice_is_shown_without_a_comparison(
    browser: Browser, stweaver: Run, tmp_path: Path
) -> None:
    file = tmp_path / "one.html"
    asked = ("advise", "llama3_8b", "--gpus", "8", "--gpu", "h100", "--objective", "time", "-o", file)
    assert stweaver(*asked).returncode == 0
    opened = Opened(browser, file)
    assert opened.page.locator("section", has=opened.page.locator("#kept")).locator("tbody tr").count() == 1
    assert chosen(opened.page).startswith("Choice 1: ")
    assert opened.page.locator("svg.front").count() == 0
    opened.close()
