"""Packages that only some functions need."""
import importlib


def need(name, what):
    """The module `name`, or ImportError that says what it is needed for."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{what} needs {name}, which is not installed here "
                          f"(pip install {name}; Debian: python3-{name})", name=name) from error
