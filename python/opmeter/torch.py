"""Training loops of PyTorch: their steps and phases in the recording.

    training = opmeter.torch.Training("resnet", module=net, optimizer=optimizer)
    with opmeter.profile(file="trace.opm"), training:
        for x, y in loader:
            loss = criterion(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            training.step()

For loops that somebody else runs, Callback is one of Hugging Face's Trainer and of Lightning's:

    Trainer(..., callbacks=[opmeter.torch.Callback("bert")])

Operators come from PyTorch itself: run the program with `python -m opmeter` or `opmeter record`.
"""
from typing import Any

from . import _opmeter


class Training:
    """Steps of a training loop; a context manager.

    step() ends a step and begins the next one; the first `warm_up` of them do not count. With the
    module and the optimizer given, the forward pass, the backward pass and the update are told
    apart too; forward(), backward() and update() say so otherwise.
    """

    def __init__(self, name: str = "training", module: Any = None, optimizer: Any = None,
                 warm_up: int = 0, first: int = 0) -> None:
        self.name, self.warm_up, self.number = name, warm_up, first
        self._first = first
        self._module, self._optimizer = module, optimizer
        self._step = None
        self._handles = []

    def start(self) -> "Training":
        """Begin the first step, and watch module and optimizer."""
        if self._step is not None:
            raise ValueError("the training has begun already")
        self._watch()
        self._begin()
        return self

    def stop(self) -> None:
        """End it. A step that has begun and was not ended by step() is none."""
        self._step = None
        for handle in self._handles:
            handle()
        self._handles = []

    def step(self) -> None:
        """A step is over, and another one begins."""
        if self._step is None:
            raise ValueError("step() of a training that has not begun")
        self._end()
        self._begin()

    def forward(self) -> None:
        """The forward pass begins."""
        _opmeter.phase("forward")

    def backward(self) -> None:
        """The backward pass begins."""
        _opmeter.phase("backward")

    def update(self) -> None:
        """The update of the weights begins."""
        _opmeter.phase("update")

    def __enter__(self) -> "Training":
        return self.start()

    def __exit__(self, *exc: Any) -> None:
        self.stop()

    def _begin(self):
        self._step = _opmeter.step(self.number, self.name,
                                   self.number - self._first < self.warm_up)
        self._step.begin()

    def _end(self):
        self._step.end()
        self._step = None
        self.number += 1

    def _watch(self):
        if self._module is not None:
            before = self._module.register_forward_pre_hook(lambda module, args: self._forward())
            after = self._module.register_forward_hook(
                lambda module, args, output: self._watch_backward(output))
            self._handles += [before.remove, after.remove]
        if self._optimizer is not None:
            optimizer, step = self._optimizer, self._optimizer.step

            def watched(*args, **kwargs):
                if self._step is not None:
                    self.update()
                return step(*args, **kwargs)

            optimizer.step = watched  # hides that of its class
            self._handles.append(lambda: optimizer.__dict__.pop("step", None))

    def _forward(self):
        if self._step is not None:
            self.forward()

    def _watch_backward(self, output):
        """The backward pass has begun when it reaches an output of the module."""
        for tensor in _tensors(output):
            if tensor.requires_grad:
                tensor.register_hook(self._backward)
                return

    def _backward(self, gradient):
        if self._step is not None:
            self.backward()


def _tensors(output):
    """Tensors in what a module gives: itself, or inside lists, tuples and dicts."""
    if hasattr(output, "register_hook"):
        yield output
    elif isinstance(output, dict):
        for item in output.values():
            yield from _tensors(item)
    elif isinstance(output, (list, tuple)):
        for item in output:
            yield from _tensors(item)


class Callback:
    """Steps of a loop that a library runs: an object for its list of callbacks.

    Knows the names that Hugging Face's Trainer and Lightning call; what it does not know it takes
    and ignores.
    """

    def __init__(self, name: str = "training", warm_up: int = 0) -> None:
        self._name, self._warm_up = name, warm_up
        self._number = 0
        self._step = None

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        self._step = _opmeter.step(self._number, self._name, self._number < self._warm_up)
        self._step.begin()

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        if self._step is not None:
            self._step.end()
            self._step = None
            self._number += 1

    on_train_batch_start = on_step_begin
    on_train_batch_end = on_step_end

    def __getattr__(self, name):
        if name.startswith("on_") or name in ("setup", "teardown"):
            return lambda *args, **kwargs: None
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
