"""PyTorch's observers, for opmeter's CUDA library, which is in C (src/device/cuda/torch_hook.h).

What PyTorch is handed, a class of C++, must be exactly what it expects, or the program dies. Its own
headers, which are installed with it, say what that is: read here, and compared. What it hands to an
observer is looked at in one call whose arguments are known.
"""
import ctypes
import os
import platform
import re

# Members of at::RecordFunctionCallback, without blanks.
MEMBERS = ("StartCallbackstart_;EndCallbackend_;doublesampling_prob_=1.0;"
           "std::array<bool,static_cast<size_t>(RecordScope::NUM_SCOPES)>scopes_={};"
           "boolneeds_inputs_=false;boolneeds_outputs_=false;boolneeds_ids_=false;")
STARTS = ("std::unique_ptr<ObserverContext>(*)(constRecordFunction&);"
          "usingEndCallback=void(*)(constRecordFunction&,ObserverContext*);")
OPERATORS = ("FUNCTION", "BACKWARD_FUNCTION", "TORCHSCRIPT_FUNCTION", "STATIC_RUNTIME_OP")
MARKS = ("USER_SCOPE",)


class Unknown(Exception):
    """This PyTorch is not known; why."""


class _Probe(ctypes.Structure):
    _fields_ = [("first", ctypes.c_void_p), ("second", ctypes.c_void_p)]


def scopes_of(header):
    """The names of at::RecordScope in their order, if the header is as expected."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", header, flags=re.DOTALL)
    scopes = re.search(r"\benum\s+class\s+(?:\w+\s+)?RecordScope\s*:\s*uint8_t\s*{([^}]*)}", text)
    callback = re.search(r"\bclass\s+(?:\w+\s+)?RecordFunctionCallback\s*{(.*?)\n};", text,
                         flags=re.DOTALL)
    if not scopes or not callback:
        raise Unknown("its header has other classes")
    body = re.sub(r"\s", "", callback[1])
    if not body.endswith("private:" + MEMBERS) or STARTS not in body or "virtual" in body:
        raise Unknown("its header has other members")
    names = [re.sub(r"\s", "", name) for name in scopes[1].split(",")]
    names = [name[:-2] if name.endswith("=0") else name for name in names if name]
    if names[-1] != "NUM_SCOPES" or any("=" in name for name in names):
        raise Unknown("its header has other scopes")
    return names[:-1]


def bits(names, scopes):
    return sum(1 << scopes.index(name) for name in names if name in scopes)


def find(torch, path):
    """The library, which has found out how to observe this PyTorch."""
    if platform.machine() != "x86_64":
        raise Unknown(f"not on {platform.machine()}")
    folder = os.path.dirname(torch.__file__)
    try:
        with open(os.path.join(folder, "include", "ATen", "record_function.h"),
                  encoding="utf-8") as file:
            scopes = scopes_of(file.read())
    except OSError as error:
        raise Unknown(f"its header cannot be read: {error.strerror}") from error
    library = ctypes.CDLL(path)
    library.opmeter_torch_look.argtypes = (ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint32,
                                           ctypes.c_uint32, ctypes.POINTER(_Probe))
    first = torch.zeros((), dtype=torch.float32).expand(3, 5, 7)
    second = torch.zeros((), dtype=torch.int64).expand(2, 3, 4, 5, 6, 7)
    probe = _Probe(first._cdata, second._cdata)
    torch_library = os.path.join(folder, "lib", "libtorch_cpu.so")
    if library.opmeter_torch_look(os.fsencode(torch_library), len(scopes), bits(OPERATORS, scopes),
                                  bits(MARKS, scopes), probe) < 0:
        raise Unknown("its functions are others")
    first.is_same_size(second)
    if not library.opmeter_torch_found():
        raise Unknown("what it passes to observers is something else")
    return library
