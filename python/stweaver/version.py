"""Which version this is: the one place that says so. CMakeLists.txt and pyproject.toml read it here."""

__version__ = "0.2.0"
