"""Answers of queries as DataFrames, or as Arrow columns for whoever takes those."""
from typing import TYPE_CHECKING, Any

from ._need import need

if TYPE_CHECKING:
    import pandas


class _Memory:
    """Memory of a column as NumPy sees it; keeps the column alive."""

    def __init__(self, owner, address, typestr, count):
        self._owner = owner
        self.__array_interface__ = {"data": (address, False), "shape": (count,),
                                    "typestr": typestr, "version": 3}


_TYPES = {"int": "<i8", "real": "<f8", "text": "<i4"}


class Column:
    """A column of an answer: values, and which of them are NULL (None: none is)."""

    def __init__(self, np, count, name, kind, owner, values, valid, words):
        self.name, self.kind, self.words = name, kind, words
        self.values = self.null = None
        if values is not None:
            self.values = np.asarray(_Memory(owner, values, _TYPES[kind], count))
        elif kind != "null":
            self.values = np.empty(0, _TYPES[kind])
        if valid is not None:
            bits = np.asarray(_Memory(owner, valid, "|u1", count // 8 + 1))
            self.null = np.unpackbits(bits, count=count, bitorder="little") == 0

    def series(self, np, pd, count):
        """As pandas likes it: integers with NULLs are Int64, texts are str or None."""
        if self.kind == "null":
            return np.full(count, None, object)
        if self.kind == "text":
            words = np.empty(len(self.words) + 1, object)  # the last one stays None
            words[:-1] = self.words
            codes = self.values
            if self.null is not None:
                codes = np.where(self.null, len(self.words), codes)
            return words.take(codes)
        if self.null is None:
            return self.values
        if self.kind == "int":
            return pd.arrays.IntegerArray(self.values, self.null)
        self.values[self.null] = np.nan
        return self.values


def columns_of(np, handle, sql):
    """Number of rows and the columns of a query, filled in C."""
    count, columns = handle.columns(sql)
    return count, [Column(np, count, *column) for column in columns]


def dataframe(handle, sql):
    """The answer of a query as a pandas.DataFrame."""
    np, pd = need("numpy", "a DataFrame"), need("pandas", "a DataFrame")
    count, columns = columns_of(np, handle, sql)
    # By number, as two columns may have the same name.
    frame = pd.DataFrame({i: column.series(np, pd, count) for i, column in enumerate(columns)},
                         copy=False)
    frame.columns = [column.name for column in columns]
    return frame


class Answer:
    """The answer of a query for consumers of Arrow: polars.DataFrame(answer),
    pyarrow.table(answer), duckdb.sql("SELECT * FROM answer"). The query runs each time that it is
    consumed."""

    def __init__(self, handle: Any, sql: str) -> None:
        self._handle, self.sql = handle, sql

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._handle.arrow(self.sql)

    def df(self) -> "pandas.DataFrame":
        """As a pandas.DataFrame."""
        return dataframe(self._handle, self.sql)

    def __repr__(self):
        return f"<opmeter answer of {self.sql!r}>"


class Frames:
    """What a trace offers as DataFrames; needs pandas."""

    def sql(self, sql: str) -> "pandas.DataFrame":
        """The answer of a query as a pandas.DataFrame; `opmeter schema` lists tables."""
        return dataframe(self._handle, sql)

    def arrow(self, sql: str) -> Answer:
        """The answer of a query for polars, pyarrow, DuckDB, ...: see Answer."""
        return Answer(self._handle, sql)

    def spans(self) -> "pandas.DataFrame":
        """Everything with a start and an end."""
        return self.sql("SELECT * FROM span")

    def ops(self) -> "pandas.DataFrame":
        """The time of every operator, the longest first; those of the device before the host's."""
        return self.sql("SELECT * FROM op_stats ORDER BY section IS NULL, section, self_ns DESC")

    def types(self) -> "pandas.DataFrame":
        """The time by operator type, the longest first."""
        return self.sql("SELECT * FROM type_stats")

    def steps(self) -> "pandas.DataFrame":
        """The parts of every step: gap, forward, backward, tail."""
        return self.sql("SELECT * FROM step_trace")

    def summary(self) -> "pandas.DataFrame":
        """Latency with percentiles, of the steps of each model and of labelled regions."""
        return self.sql("SELECT * FROM latency")

    def advice(self) -> "pandas.DataFrame":
        """What could be faster, with the query that proves it."""
        return self.sql("SELECT * FROM advice")

    def _repr_html_(self) -> str:
        from .html import page
        return page(self)
