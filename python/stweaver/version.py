"""Which version this is; a test holds it to that of CMakeLists.txt."""

__version__ = "0.1.0"
