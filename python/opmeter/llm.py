"""Requests to a language model and the iterations that serve them; docs/llm.md defines the words.

    r = opmeter.request("r1", tokens_in=128)         # it arrives
    r.scheduled()                                    # it leaves the queue
    with opmeter.iteration(7) as it:
        it.add(r, "prefill", tokens_in=128, tokens_out=1, context=128)
        ...                                          # run the model
    r.token()                                        # a token is there
    r.finished("stop")
"""
from ._opmeter import span


def _tell(what, name, facts):
    with span(what, "llm", request=name, **{k: v for k, v in facts.items() if v is not None}):
        pass


class request:
    """A request that arrives now. As a context manager it is finished at the end, if it was not before."""

    def __init__(self, name, tokens_in=None, model=None, cached=None):
        self.name = str(name)
        self._ended = False
        _tell("request", self.name, {"tokens_in": tokens_in, "model": model, "cached": cached})

    def scheduled(self):
        """It leaves the queue, or is taken up again after it was set aside."""
        _tell("scheduled", self.name, {})

    def token(self, n=1):
        """n tokens of it are there."""
        _tell("token", self.name, {"n": n if n != 1 else None})

    def preempted(self):
        """It is set aside for others."""
        _tell("preempted", self.name, {})

    def finished(self, reason=None):
        if not self._ended:
            self._ended = True
            _tell("finished", self.name, {"reason": reason})

    def __enter__(self):
        return self

    def __exit__(self, kind, *exc):
        self.finished("error" if kind else None)


class iteration:
    """One run of the model over a batch of requests; a context manager."""

    def __init__(self, num=None):
        self._span = span("iteration", "llm", **({} if num is None else {"num": num}))

    def add(self, member, phase, tokens_in=None, tokens_out=None, context=None):
        """A request takes part in it; phase is "prefill" or "decode"."""
        if phase not in ("prefill", "decode"):
            raise ValueError(f"phase is 'prefill' or 'decode', not {phase!r}")
        _tell("member", member.name if isinstance(member, request) else str(member), {
            "phase": phase, "tokens_in": tokens_in, "tokens_out": tokens_out, "context": context})

    def __enter__(self):
        self._span.begin()
        return self

    def __exit__(self, *exc):
        self._span.end()
