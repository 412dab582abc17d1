"""The stubs say what the C modules have, no more and no less; all that is public is documented."""
import ast
import importlib
import os
import unittest

import opmeter

FOLDER = os.path.dirname(opmeter.__file__)
INHERITED = set(dir(object)) | {"__module__", "__weakref__", "__dict__", "__slots__"}


def members(body):
    """Names that the body of a stub or of a class in it defines."""
    for item in body:
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield item.name
        elif isinstance(item, ast.AnnAssign):
            yield item.target.id


class Stubs(unittest.TestCase):
    def modules(self):
        for file in os.listdir(FOLDER):
            if file.endswith(".abi3.so"):
                yield file.partition(".")[0]

    def test_same_names(self):
        for name in self.modules():
            module = importlib.import_module(f"opmeter.{name}")
            with open(os.path.join(FOLDER, f"{name}.pyi")) as file:
                stub = ast.parse(file.read())
            self.compare(name, set(members(stub.body)), set(vars(module)))
            for item in stub.body:
                if isinstance(item, ast.ClassDef) and item.name != "Error":
                    found = getattr(module, item.name)
                    self.compare(f"{name}.{item.name}", set(members(item.body)) | INHERITED,
                                 set(dir(found)) | INHERITED)

    def compare(self, what, listed, found):
        found = {name for name in found
                 if not (name.startswith("__") and what.count(".") == 0)}
        self.assertEqual(listed - {"__new__"}, found - {"__new__"}, what)

    def test_error_codes(self):
        with open(os.path.join(FOLDER, "_opmeter.pyi")) as file:
            stub = ast.parse(file.read())
        error, = (item for item in stub.body if getattr(item, "name", "") == "Error")
        listed = {name for name in members(error.body) if name.isupper()}
        self.assertEqual(listed, {name for name in vars(opmeter.Error) if name.isupper()})

    def test_everything_public_is_documented(self):
        for name in opmeter.__all__:
            self.assertTrue(getattr(opmeter, name).__doc__, name)
        for name in self.modules():
            module = importlib.import_module(f"opmeter.{name}")
            for what, value in vars(module).items():
                if callable(value) and not what.startswith("_"):
                    self.assertTrue(value.__doc__, f"{name}.{what}")

    def test_package_is_marked_as_typed(self):
        self.assertTrue(os.path.exists(os.path.join(FOLDER, "py.typed")))
