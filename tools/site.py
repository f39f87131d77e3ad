"""A hook of MkDocs: pages that lie outside of docs/, and links between all of them.

The documents link to each other by their paths in the repository. Those of pages become links between
pages; what is no page of the site (sources, scripts) becomes its path, as code.
"""

import os
import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "src/README.md",
    "nullcuda/README.md",
    "torch/README.md",
    "examples/README.md",
)
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def page_of(path: str) -> str:
    """Tell where the repository's file `path` lies on the site."""
    if path == "README.md":
        return "index.md"
    return path.removeprefix("docs/") if path.startswith("docs/") else f"outside/{path}"


def path_of(page: str) -> str:
    """Tell which file of the repository the page was made from."""
    if page == "index.md":
        return "README.md"
    return page.removeprefix("outside/") if page.startswith("outside/") else f"docs/{page}"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside of docs/."""
    for path in ("README.md", *OUTSIDE):
        files.append(File.generated(config, page_of(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, files: Files, **_: object) -> str:
    """Turn the links of one page into those of the site."""
    here = PurePosixPath(path_of(page.file.src_uri)).parent
    at = PurePosixPath(page.file.src_uri).parent

    def link(match: re.Match[str]) -> str:
        picture, text, target = match.groups()
        path, mark, anchor = target.partition("#")
        if not path or "://" in target:
            return match[0]
        found = os.path.normpath(here / path)
        file = files.get_file_from_path(page_of(found))
        if file is not None:
            return f"{picture}[{text}]({os.path.relpath(file.src_uri, at)}{mark}{anchor})"
        return text if text.startswith("`") else f"{text} (`{found}`)"

    return LINK.sub(link, markdown)
