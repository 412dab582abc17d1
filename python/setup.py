"""setup.py -- have CMake build the extension and the libraries, and put them into the package.

The sources of the libraries are in the repository around this folder, so the package is built from
a checkout: `pip install ./python`.
"""
import os
import subprocess
from pathlib import Path

from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parent.parent
OLDEST = "cp39"


class CMakeExtension(build_ext):
    def build_extension(self, ext):
        if not (ROOT / "CMakeLists.txt").exists():
            raise SystemExit("opmeter is built from a checkout of its repository: "
                             "pip install ./python")
        build = Path(self.build_temp).resolve()
        # Where the package is being put together, or its source folder for `develop`.
        to = Path(self.get_ext_fullpath(ext.name)).resolve().parent.parent
        if os.environ.get("OPMETER_BUILD"):  # what script/package has built
            self.cmake("--install", os.environ["OPMETER_BUILD"], "--component", "python",
                       "--prefix", to, "--strip")
            return
        self.cmake("-S", ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DOPMETER_BENCH=OFF",
                   "-DBUILD_TESTING=OFF")
        self.cmake("--build", build, "--target", "opmeter_python", "opmeter_cuda", "opmeter_llama",
                   "opmeter_cli",
                   "--parallel", str(os.cpu_count() or 1))
        self.cmake("--install", build, "--component", "python", "--prefix", to, "--strip")

    def cmake(self, *words):
        subprocess.run(["cmake", *map(str, words)], check=True)


class Wheel(bdist_wheel):
    """Stable ABI: one wheel for every CPython from OLDEST on."""

    def get_tag(self):
        return OLDEST, "abi3", super().get_tag()[2]


class Binary(Distribution):
    def has_ext_modules(self):
        return True


setup(
    version=(ROOT / "VERSION").read_text().strip(),
    distclass=Binary,
    ext_modules=[Extension("opmeter._opmeter", sources=[], py_limited_api=True)],
    cmdclass={"build_ext": CMakeExtension, "bdist_wheel": Wheel},
)
