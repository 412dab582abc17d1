"""What spans can do that is easier said in Python: decorators and `async with`."""
import functools
import inspect

from ._opmeter import Span


async def _enter(span):
    return span._begin_async()


async def _exit(span, *exc):
    span.__exit__(*exc)


Span.__aenter__ = _enter
Span.__aexit__ = _exit


def wrap(span, function):
    """`function` inside `span`, with its name, signature and kind: coroutine, generator, ..."""
    if not callable(function):
        raise TypeError(f"a span decorates a function, not {function!r}")
    if inspect.iscoroutinefunction(function):
        async def around(*args, **kwargs):
            with span._as_async():
                return await function(*args, **kwargs)
    elif inspect.isasyncgenfunction(function):
        async def around(*args, **kwargs):
            with span._as_async():
                async for item in function(*args, **kwargs):
                    yield item
    elif inspect.isgeneratorfunction(function):
        def around(*args, **kwargs):
            with span._as_async():
                return (yield from function(*args, **kwargs))
    else:
        def around(*args, **kwargs):
            with span:
                return function(*args, **kwargs)
    return functools.wraps(function)(around)
