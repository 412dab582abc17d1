"""Spans as decorators: around functions, coroutines and generators."""
import functools
import inspect


def wrap(span, function):
    """`function` inside `span`, with its name, signature and kind."""
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
