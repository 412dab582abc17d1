"""PyTorch: operators, the backward pass and optimizers through its own profiler, steps from the
optimizer where the program marks none, the DataLoader's queue; and what telling of operators costs.

The profiler keeps what it sees in memory, so what it has is written from time to time, between two
steps: a chunk is a part of the recording. CUPTI has room for one profiler only, so under opmeter's
CUDA library that library records operators together with the kernels: as PyTorch tells its
observers of them (pytorch_observer.py), or, where it is not known how this PyTorch does that, as
NVTX ranges.
"""
import functools
import importlib
import json
import os
import sys
import threading
import time
import warnings

from . import at_end, folder, part, say
from . import pytorch_observer as observer

CHUNK_S = 10
# What opmeter calls steps that it derives: they give way to those that the program marks itself.
STEP = "optimizer step"


def install(torch):
    if folder() is None:
        return
    recorder = _recorder(torch)
    recorder.start()
    at_end(recorder.stop)
    os.register_at_fork(after_in_child=recorder.forked)
    for watch, what in ((_watch_marks, "what is written before the end"),
                        (_watch_optimizers, "steps"), (_watch_loaders, "the DataLoader's queue"),
                        (_watch_cuda, "what GPUs do")):
        try:
            watch(torch, recorder)
        except Exception as error:
            say(f"torch {torch.__version__}: {what} will be missing: "
                f"{type(error).__name__}: {error}")


def _recorder(torch):
    wanted = is_wanted("op")
    if os.environ.get("OPMETER_CUDA") != "1":
        return _Profiler(torch) if wanted or is_wanted("cpu_op") else _Marks(torch)
    try:
        library = observer.find(torch, os.environ["CUDA_INJECTION64_PATH"])
    except Exception as error:
        _meta(operators=f"as NVTX ranges: {error}")
        return _Nvtx(torch) if wanted else _Marks(torch)
    _meta(operators="as PyTorch tells its observers")
    return _Observer(torch, library, wanted)


def is_wanted(category):
    """Does the recording want spans of the category, as far as its environment says?"""
    listed = [word for word in os.environ.get("OPMETER_CATEGORIES", "").split(",") if word]
    if os.environ.get("OPMETER_LEVEL") == "1":
        return False
    if listed and not listed[0].startswith("-"):
        return category in listed
    return f"-{category}" not in listed


def _meta(**facts):
    from .. import meta
    for key, value in facts.items():
        meta(f"torch.{key}", value)


# ---- what writes down operators ----

class _Recorder:
    """Steps on top of whatever records operators. All on the thread that imported PyTorch, which
    is the one that trains."""

    def __init__(self, torch):
        self.torch = torch
        self.step_number = 0
        self._step = None
        self._thread = threading.get_ident()
        self._optimizer = None
        self._marks = None  # that are open on this thread, the step's not counted; None: unknown
        self._anew = False  # begin anew when none is
        self.running = False

    def start(self):
        self.begin()
        self.running = True

    def stop(self):
        """A step that no optimizer has finished is none."""
        if self.running:
            self.running = False
            self._finish()
            if self._marks != 0:  # not while something is under way, see begin_anew_if()
                return
            try:
                self.measure()
            except Exception as error:  # another version
                say(f"torch {self.torch.__version__}: what recording its operators cost is not "
                    f"known: {type(error).__name__}: {error}")

    def _finish(self):
        unfinished = self._step_name() if self._step is not None else None
        self._end_step()
        self.end(unfinished)

    def forked(self):
        """In a forked child: the profile goes on in the parent, the child gets its own. Not the
        workers of a DataLoader, of which every epoch has new ones; and not where the profiler has
        to do with a GPU, which is the parent's alone: it must not even be stopped there."""
        if not self.running:
            return
        self.running = False
        if _is_loader(sys._getframe()) or not self.can_fork():
            self.torch._C._autograd._enable_record_function(False)
            return
        self.abandon()
        self._step = self._optimizer = None
        self._thread = threading.get_ident()
        self._marks = None if self._marks is None else 0
        self.step_number = 0
        try:
            self.start()
        except Exception as error:
            say(f"process {os.getpid()}: torch is not recorded: {type(error).__name__}: {error}")
            return
        at_end(self.stop)

    def stepped(self, optimizer):
        """An optimizer has done its step. With several of them the first one counts steps."""
        if not self.running or threading.get_ident() != self._thread:
            return
        if self._optimizer is None:
            self._optimizer = id(optimizer)
        if self._optimizer == id(optimizer):
            self.next_step()

    def next_step(self):
        self._end_step()
        self.step_number += 1
        self._begin_step()
        self.begin_anew_if(self.wants_anew())

    def count_marks(self):
        self._marks = 0

    def marked(self, mark, change):
        """A record_function() was entered (1) or left (-1)."""
        own = mark is not None and mark is self._step
        if not own and self._marks is not None and threading.get_ident() == self._thread:
            self._marks = max(self._marks + change, 0)
            self.mark_changed()

    def mark_changed(self):
        self.begin_anew_if(False)

    def begin_anew_if(self, wanted):
        """PyTorch's profiler must not begin anew while something is under way that it has seen
        begin: the end of that would go to memory which is no more. So wait for its end."""
        self._anew |= wanted
        if not self.running or not self._anew or self._marks != 0:
            return
        stepping = self._step is not None
        self._finish()
        self._anew = False
        self.begin()
        if stepping:
            self._begin_step()

    def fetching(self):
        """A DataLoader is asked for data: the first step begins, if none has."""
        if self.running and self._step is None and threading.get_ident() == self._thread:
            self._begin_step()

    def _step_name(self):
        return f"{STEP}#{self.step_number}"

    def _begin_step(self):
        self._step = self.torch.autograd.profiler.record_function(self._step_name())
        self._step.__enter__()

    def _end_step(self):
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def wants_anew(self):
        return False

    def cuda_begins(self):
        """The program has begun to use CUDA."""


def _quietly(function):
    """Without warnings of PyTorch's profiler, which the program has not asked for."""
    @functools.wraps(function)
    def quiet(*args, **kwargs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **kwargs)

    return quiet


class _Profiler(_Recorder):
    """torch.profiler, a chunk at a time."""

    def __init__(self, torch):
        super().__init__(torch)
        self._chunk = 0
        self._cuda = False
        self._kineto = torch.autograd.kineto_available()

    @_quietly
    def begin(self):
        profiler = self.torch.profiler
        options = {"activities": self._activities(), "record_shapes": True, "with_flops": True}
        self._profile = profiler.profile(**options, **self._all_threads())
        self._begun_ns = time.time_ns()
        self._profile.start()
        self._chunk_began = time.monotonic()

    def _activities(self):
        """GPUs from when the program uses them: the profiler would initialise CUDA, and what forks
        after that can't."""
        activity = self.torch.profiler.ProfilerActivity
        return [activity.CPU] + [activity.CUDA] * self._cuda

    def cuda_begins(self):
        activity = self.torch.profiler.ProfilerActivity
        if (not self.running or self._cuda or threading.get_ident() != self._thread
                or activity.CUDA not in self.torch.profiler.supported_activities()):
            return
        self._cuda = True
        self.begin_anew_if(True)

    def can_fork(self):
        return not self._cuda

    def _all_threads(self):
        """Operators of other threads, where this version can tell."""
        try:
            config = self.torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
        except (AttributeError, TypeError):
            return {}
        return {"experimental_config": config}

    def end(self, unfinished=None):
        from .. import span
        with span("write operators", category="opmeter"):
            self._write(unfinished)

    @_quietly
    def _write(self, unfinished):
        self._profile.stop()
        path = part(f"torch-{self._chunk}.json")
        self._chunk += 1
        if self._kineto:
            self._profile.export_chrome_trace(path + ".writing")
        else:
            _write_events(self._profile.events(), self._begun_ns, path + ".writing")
        if unfinished:
            _rename_event(path + ".writing", unfinished, "unfinished step")
        os.replace(path + ".writing", path)
        self._profile = None

    def abandon(self):
        self._profile = None
        self.torch._C._autograd._disable_profiler()

    @_quietly
    def measure(self):
        profiler, cost = self.torch.profiler, _Cost(self.torch)
        for _ in range(cost.TURNS):
            profile = profiler.profile(activities=[profiler.ProfilerActivity.CPU],
                                       record_shapes=True, with_flops=True)
            profile.start()
            cost.take(told=True)
            profile.stop()
            cost.take(told=False)
        cost.state(op_cost_ns=cost.of(cost.LONG))

    def wants_anew(self):
        return time.monotonic() - self._chunk_began >= CHUNK_S


class _Marks(_Recorder):
    """Steps alone. What is open on a thread is a stack, and steps nest with it though they are none
    of it, so a step ends and the next one begins while nothing is on it: an optimizer tells of its
    step inside of a range of its own."""

    def __init__(self, torch):
        super().__init__(torch)
        self._turn = False

    def next_step(self):
        self._turn = True
        self.mark_changed()

    def mark_changed(self):
        if self.running and self._turn and self._marks == 0:
            self._turn = False
            self._end_step()
            self.step_number += 1
            self._begin_step()

    def fetching(self):
        if self._marks == 0:
            super().fetching()

    def _begin_step(self):
        self._step = _new_step(self.step_number)
        self._step.begin()

    def _end_step(self):
        if self._step is not None:
            self._step.end()
            self._step = None

    def _finish(self):
        self._step = None  # it has not ended, and is none
        self.end()

    def begin(self):
        pass

    def end(self, unfinished=None):
        pass

    def abandon(self):
        self.end()

    def can_fork(self):
        return True

    def measure(self):
        pass

    def _cost(self):
        from .. import pause, resume
        cost = _Cost(self.torch)
        pause()  # these operators are not the program's
        try:
            for _ in range(cost.TURNS):
                self.begin()
                cost.take(told=True)
                self.end()
                cost.take(told=False)
        finally:
            resume()
        return cost


class _Observer(_Marks):
    """Operators and marks as PyTorch tells its observers of them."""

    def __init__(self, torch, library, operators):
        super().__init__(torch)
        self._library, self._operators = library, operators

    def begin(self):
        self._library.opmeter_torch_watch(1, int(self._operators))

    def end(self, unfinished=None):
        self._library.opmeter_torch_watch(0, 0)

    def measure(self):
        if self._operators:
            cost = self._cost()
            cost.state(op_cost_ns=cost.of(cost.LONG))


class _Nvtx(_Marks):
    """NVTX ranges. Not through emit_nvtx(), which would initialise CUDA in a program that may want
    to fork first."""

    def measure(self):
        cost = self._cost()
        cost.state(op_cost_ns=cost.of(()), op_cost_bytes=cost.BYTES[()],
                   op_byte_cost_ns=cost.of_byte())

    def begin(self):
        torch = self.torch
        profiler = torch.autograd.profiler
        config = profiler.ProfilerConfig(profiler.ProfilerState.NVTX, True, False, False, False,
                                         False, torch._C._profiler._ExperimentalConfig())
        profiler._enable_profiler(config, set())

    def end(self, unfinished=None):
        self.torch._C._autograd._disable_profiler()


def _new_step(number):
    from .. import step
    return step(number, STEP)


class _Cost:
    """What it costs the program to have one operator told: the same operator, which does next to
    nothing, told and not told in turns, with short shapes and with long ones; the fastest of each."""
    TURNS, CALLS = 5, 100
    LONG = (16,) * 12  # of two tensors: as much as the operators of a network have on average
    # How long the text of the operator is, where operators are texts.
    BYTES = {(): len("aten::is_same_size, op_id = 123456, sizes = [[], []]")}
    BYTES[LONG] = BYTES[()] + 2 * len(", ".join(map(str, LONG)))

    def __init__(self, torch):
        number = torch.zeros(())
        self._tensor = {shape: number.expand(shape) for shape in self.BYTES}
        self._ns = {}

    def take(self, told):
        for shape, tensor in self._tensor.items():
            for _ in range(2):
                begun = time.perf_counter_ns()
                for _ in range(self.CALLS):
                    tensor.is_same_size(tensor)
                took = (time.perf_counter_ns() - begun) / self.CALLS
                self._ns[told, shape] = min(took, self._ns.get((told, shape), took))

    def of(self, shape):
        return max(0, self._ns[True, shape] - self._ns[False, shape])

    def of_byte(self):
        return (max(0, self.of(self.LONG) - self.of(()))
                / (self.BYTES[self.LONG] - self.BYTES[()]))

    def state(self, **facts):
        _meta(**{key: f"{value:.1f}" for key, value in facts.items()})


def _write_events(events, begun_ns, path):
    """Chrome's JSON as Kineto has it, for PyTorch that was built without Kineto."""
    pid, main = os.getpid(), threading.get_native_id()
    threads = {1: main}  # PyTorch counts them from the one that profiles
    rows = [{"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": "python"}}]
    for event in events:
        if event.time_range.end < event.time_range.start:
            continue
        tid = threads.setdefault(event.thread, pid * 1000 + event.thread)
        args = {"External id": event.id}
        if event.input_shapes:
            args["Input Dims"] = event.input_shapes
        if event.sequence_nr >= 0:
            args["Sequence number"] = event.sequence_nr
            if event.fwd_thread:
                args["Fwd thread id"] = event.fwd_thread
        name = event.trace_name or event.name  # the other one is for sums: "ProfilerStep*"
        annotation = name.startswith((STEP, "ProfilerStep#", "Optimizer.",
                                      "enumerate(DataLoader)"))
        rows.append({"ph": "X", "cat": "user_annotation" if annotation else "cpu_op",
                     "name": name, "pid": pid, "tid": tid,
                     "ts": event.time_range.start,
                     "dur": event.time_range.end - event.time_range.start, "args": args})
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"schemaVersion": 1, "baseTimeNanoseconds": begun_ns, "traceEvents": rows}, file)


def _rename_event(path, old, new):
    with open(path, "rb") as file:
        text = file.read()
    with open(path, "wb") as file:
        file.write(text.replace(json.dumps(old).encode(), json.dumps(new).encode()))


def _is_loader(frame):
    """Is this what a DataLoader forks from?"""
    while frame is not None:
        if frame.f_code.co_filename.endswith(os.path.join("utils", "data", "dataloader.py")):
            return True
        frame = frame.f_back
    return False


# ---- what tells them of steps ----

def _watch_optimizers(torch, recorder):
    module = importlib.import_module("torch.optim.optimizer")
    if hasattr(module, "register_optimizer_step_post_hook"):
        module.register_optimizer_step_post_hook(
            lambda optimizer, args, kwargs: recorder.stepped(optimizer))
        return
    # Older ones wrap the step of every class when its first object is made, for their own profiler.
    wrap = torch.optim.Optimizer._hook_for_profile

    @functools.wraps(wrap)
    def _hook_for_profile(self):
        wrap(self)
        step = type(self).step
        if getattr(step, "opmeter", False):
            return

        @functools.wraps(step)
        def watched(optimizer, *args, **kwargs):
            result = step(optimizer, *args, **kwargs)
            recorder.stepped(optimizer)
            return result

        watched.opmeter = watched.hooked = True
        type(self).step = watched

    torch.optim.Optimizer._hook_for_profile = _hook_for_profile


def _watch_marks(torch, recorder):
    """When record_function() is entered and left, by whomever."""
    mark = torch.autograd.profiler.record_function
    enter, leave = mark.__enter__, mark.__exit__

    @functools.wraps(enter)
    def __enter__(self):
        recorder.marked(self, 1)
        return enter(self)

    @functools.wraps(leave)
    def __exit__(self, *reason):
        try:
            return leave(self, *reason)
        finally:
            recorder.marked(self, -1)

    mark.__enter__, mark.__exit__ = __enter__, __exit__
    _watch_ranges(torch.cuda.nvtx, recorder)
    recorder.count_marks()


def _watch_ranges(nvtx, recorder):
    """The program's own NVTX ranges, which are on the same stack."""
    push, pop = nvtx.range_push, nvtx.range_pop

    @functools.wraps(push)
    def range_push(*args, **kwargs):
        recorder.marked(None, 1)
        return push(*args, **kwargs)

    @functools.wraps(pop)
    def range_pop(*args, **kwargs):
        depth = pop(*args, **kwargs)
        recorder.marked(None, -1)
        return depth

    nvtx.range_push, nvtx.range_pop = range_push, range_pop


def _watch_loaders(torch, recorder):
    """How many batches wait in the queue of a DataLoader with workers, each time one is fetched."""
    base = importlib.import_module("torch.utils.data.dataloader")._BaseDataLoaderIter
    fetch = base.__next__
    queues = {}

    def size(loader):
        from .. import queue
        waiting = getattr(loader, "_data_queue", None)
        if waiting is None:
            return  # without workers there is no queue
        workers = loader._num_workers
        capacity = workers * (getattr(loader, "_prefetch_factor", None) or 2)
        key = id(loader._dataset), capacity  # every epoch has an iterator of its own
        if key not in queues:
            queues[key] = queue("DataLoader", capacity, "DataLoader workers", workers, "training")
        queues[key].size(waiting.qsize())

    @functools.wraps(fetch)
    def __next__(self):
        recorder.fetching()
        try:
            size(self)
        except Exception as error:  # another version, another queue
            say(f"the queue of the DataLoader is not recorded: {type(error).__name__}: {error}")
            base.__next__ = fetch
        return fetch(self)

    base.__next__ = __next__


def _watch_cuda(torch, recorder):
    """The first time that CUDA is initialised, from Python or from inside PyTorch."""
    initialise = torch.cuda._lazy_init

    @functools.wraps(initialise)
    def _lazy_init():
        first = not torch.cuda.is_initialized()
        initialise()
        if first and torch.cuda.is_initialized():
            recorder.cuda_begins()

    torch.cuda._lazy_init = _lazy_init
