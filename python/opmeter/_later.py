"""Modules of this package that are loaded when something of theirs is asked for."""
import importlib
import types

OWN = ("__name__", "__doc__", "__package__", "__loader__", "__spec__")
# What Python looks for in any module: it says nothing of its use.
ASKED_OF_ALL = ("__path__", "__file__", "__warningregistry__")


class Module(types.ModuleType):
    # Stands for opmeter.NAME until it is imported, which puts the module itself in its place.

    def __init__(self, name):
        super().__init__(f"{__package__}.{name}")

    def _module(self):
        return importlib.import_module(self.__name__)

    @property
    def __doc__(self):
        return self._module().__doc__

    def __getattr__(self, name):
        if name in ASKED_OF_ALL:
            raise AttributeError(name)
        return getattr(self._module(), name)

    def __setattr__(self, name, value):
        if name in OWN:
            super().__setattr__(name, value)
        else:
            setattr(self._module(), name, value)

    def __dir__(self):
        return dir(self._module())
