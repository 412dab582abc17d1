"""Act when a framework is imported: a finder that loads it as usual, then tells opmeter.

Loaded without the package, which is imported with the first framework: a program that imports none
pays for this file alone.
"""
import importlib
import importlib.util
import os
import sys

# Module that is imported -> who is told, in opmeter.frameworks.
FRAMEWORKS = {"torch": "pytorch", "onnxruntime": "onnx_runtime", "tensorflow": "tensor_flow"}

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def watch():
    """From now on. Frameworks that are there already are told at once."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder())
    sys.meta_path.append(_Package())
    for name in FRAMEWORKS:
        if name in sys.modules:
            tell(name)


def tell(name):
    """Have opmeter.frameworks record a framework. The program goes on whatever comes of it."""
    module = sys.modules[name]
    try:
        hook = importlib.import_module(f"opmeter.frameworks.{FRAMEWORKS[name]}")
        hook.install(module)
    except Exception as error:
        version = getattr(module, "__version__", "of unknown version")
        sys.stderr.write(f"opmeter: {name} {version} is not recorded: "
                         f"{type(error).__name__}: {error}\n")


class _Finder:
    """Finds what the other finders do, and has its loader tell."""

    def __init__(self):
        self._busy = set()

    def find_spec(self, name, path=None, target=None):
        if name not in FRAMEWORKS or name in self._busy:
            return None
        self._busy.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._busy.discard(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader:
    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        # What the module says of itself must not show that it was watched.
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        tell(module.__name__)

    def __getattr__(self, name):
        return getattr(self._loader, name)


class _Package:
    """Finds opmeter itself where it is not installed; asked last."""

    def find_spec(self, name, path=None, target=None):
        if name != "opmeter":
            return None
        return importlib.util.spec_from_file_location(
            name, os.path.join(_PACKAGE, "__init__.py"), submodule_search_locations=[_PACKAGE])
