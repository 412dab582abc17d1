"""Spans: nesting, order, errors, decorators, threads, coroutines."""
import asyncio
import contextlib
import inspect
import threading

import opmeter
from support import Case


class Nesting(Case):
    def test_spans_nest(self):
        def work():
            with opmeter.span("outer"):
                with opmeter.span("inner"):
                    pass
                with opmeter.span("inner"):
                    pass
        rows = self.recorded(work).rows("SELECT name, depth, parent FROM span ORDER BY id")
        self.assertEqual([(row["name"], row["depth"]) for row in rows],
                         [("outer", 0), ("inner", 1), ("inner", 1)])
        self.assertEqual([row["parent"] for row in rows], [None, 0, 0])

    def test_one_object_inside_itself(self):
        same = opmeter.span("same")

        def descend(n):
            with same:
                if n:
                    descend(n - 1)
        rows = self.recorded(lambda: descend(40)).rows("SELECT depth FROM span ORDER BY id")
        self.assertEqual([row["depth"] for row in rows], list(range(41)))
        self.assertEqual(opmeter.stats()["unbalanced"], 0)

    def test_object_is_reused_when_free(self):
        self.assertEqual(id(opmeter.span("reused")), id(opmeter.span("reused")))
        held = opmeter.span("reused")
        self.assertIsNot(opmeter.span("reused"), held)

    def test_begin_and_end(self):
        def work():
            s = opmeter.span("by hand").begin()
            s.end()
            with self.assertRaisesRegex(ValueError, "by hand.*has not begun"):
                s.end()
        self.assertEqual(self.names(self.recorded(work)), ["by hand"])

    def test_began_off_ended_on(self):
        def work():
            opmeter.pause()
            with opmeter.span("paused"):
                opmeter.resume()
                with opmeter.span("seen"):
                    pass
        self.assertEqual(self.names(self.recorded(work)), ["seen"])
        self.assertEqual(opmeter.stats()["unbalanced"], 0)

    def test_kept_began_off_ended_on(self):
        kept = opmeter.span("kept")

        def work():
            opmeter.pause()
            with kept:
                with kept:
                    opmeter.resume()
                    with kept:
                        with kept:
                            pass
                    opmeter.pause()
                opmeter.resume()
            with kept:
                pass
        rows = self.recorded(work).rows("SELECT name, depth FROM span ORDER BY id")
        self.assertEqual([row["depth"] for row in rows], [0, 1, 0])
        self.assertEqual(opmeter.stats()["unbalanced"], 0)

    def test_off_on_one_thread_on_another(self):
        kept, inside, done = opmeter.span("kept"), threading.Event(), threading.Event()

        def other():
            with kept:
                inside.set()
                done.wait()

        def work():
            opmeter.pause()
            with kept:
                opmeter.resume()
                thread = threading.Thread(target=other)
                thread.start()
                inside.wait()
            done.set()
            thread.join()
        self.assertEqual(self.names(self.recorded(work)), ["kept"])
        self.assertEqual(opmeter.stats()["unbalanced"], 0)

    def test_facts_while_off_are_nobodys(self):
        kept = opmeter.span("kept")

        def work():
            with kept:
                pass
            opmeter.pause()
            with kept as span:
                span.set(n=1)
            opmeter.resume()
        rows = self.recorded(work).rows("SELECT args FROM span")
        self.assertEqual([row["args"] for row in rows], [None])

    def test_began_on_ended_off(self):
        s = opmeter.span("across")
        opmeter.start(self.path("a.opm"))
        s.begin()
        opmeter.stop()
        s.end()
        self.assertEqual(opmeter.open(self.path("a.opm")).rows("SELECT name, dur FROM span"),
                         [{"name": "across", "dur": -1}])

    def test_paused_inside_itself(self):
        s = opmeter.span("same")

        def work():
            with s:
                opmeter.pause()
                with s:
                    pass
                opmeter.resume()
                with opmeter.span("child"):
                    pass
        rows = self.recorded(work).rows("SELECT name, depth FROM span ORDER BY id")
        self.assertEqual([(row["name"], row["depth"]) for row in rows],
                         [("same", 0), ("child", 1)])

    def test_off_records_nothing(self):
        with opmeter.span("off"):
            pass
        self.assertFalse(opmeter.enabled())
        self.assertEqual(self.names(self.recorded(lambda: None)), [])

    def test_many_names(self):
        def work():
            for i in range(20000):
                with opmeter.span(f"name {i}"):
                    pass
        trace = self.recorded(work)
        self.assertEqual(trace.value("SELECT count(DISTINCT name) FROM span"), 20000)


class Facts(Case):
    def test_category_layer_and_facts(self):
        def work():
            with opmeter.span("x", "io", "runtime", size=3, ratio=0.5, what="té", big=2 ** 70,
                              none=None, yes=True):
                pass
        row, = self.recorded(work).rows(
            "SELECT cat, layer, json_extract(args, '$.size') AS size,"
            " json_extract(args, '$.ratio') AS ratio, json_extract(args, '$.what') AS what,"
            " json_extract(args, '$.big') AS big, json_extract(args, '$.none') AS none,"
            " json_extract(args, '$.yes') AS yes FROM span")
        self.assertEqual(row, {"cat": "io", "layer": "runtime", "size": 3, "ratio": 0.5,
                               "what": "té", "big": 2.0 ** 70, "none": "None", "yes": 1})

    def test_facts_belong_to_the_call(self):
        def work():
            with opmeter.span("x", n=1):
                pass
            with opmeter.span("x"):
                pass
        rows = self.recorded(work).rows("SELECT args FROM span ORDER BY id")
        self.assertEqual([row["args"] for row in rows], ['{"n":1}', None])

    def test_set_inside_and_after(self):
        def work():
            with opmeter.span("x") as s:
                s.set(loss=0.25).set(rows=7)
            s.set(late="yes")
        row, = self.recorded(work).rows("SELECT args FROM span")
        self.assertEqual(row["args"], '{"loss":0.25,"rows":7,"late":"yes"}')

    def test_categories_filter(self):
        def work():
            with opmeter.span("kept", category="a"), opmeter.span("dropped", category="b"):
                pass
        self.assertEqual(self.names(self.recorded(work, categories="a")), ["kept"])

    def test_level_filters_layers(self):
        def work():
            with opmeter.span("app"), opmeter.span("framework", layer="framework"):
                pass
            self.assertTrue(opmeter.enabled("app"))
            self.assertFalse(opmeter.enabled("framework"))
        self.assertEqual(self.names(self.recorded(work, level=1)), ["app"])

    def test_arrow(self):
        def work():
            with opmeter.span("src") as src:
                pass
            with opmeter.span("dst") as dst:
                src.link(dst)
        self.assertEqual(self.recorded(work).rows(
            "SELECT a.name AS src, b.name AS dst FROM flow JOIN span AS a ON a.id = flow.src"
            " JOIN span AS b ON b.id = flow.dst"), [{"src": "src", "dst": "dst"}])

    def test_correlation(self):
        def work():
            with opmeter.span("launch") as s:
                s.correlate(17)
        self.assertEqual(self.recorded(work).value("SELECT correlation FROM span"), 17)

    def test_wrong_arguments(self):
        cases = [
            (TypeError, "name must be a str", lambda: opmeter.span(3)),
            (TypeError, "name must be a str", lambda: opmeter.span(None, "a")),
            (ValueError, "NUL", lambda: opmeter.span("a\0b")),
            (UnicodeEncodeError, "surrogates", lambda: opmeter.span("\ud800")),
            (TypeError, "category must be a str", lambda: opmeter.span("a", 3)),
            (ValueError, "layer must be 'app'", lambda: opmeter.span("a", layer="kernel")),
            (TypeError, "layer must be a str", lambda: opmeter.span("a", layer=1)),
            (TypeError, "4 given", lambda: opmeter.span("a", "b", "app", "c")),
            (TypeError, "0 given", lambda: opmeter.span()),
            (TypeError, "arrow leads to a span", lambda: opmeter.span("a").link("b")),
            (TypeError, "made by functions", lambda: opmeter.Span("a")),
            (TypeError, "decorates a function", lambda: opmeter.span("a")(3)),
            (ValueError, "forward", lambda: opmeter.phase("sideways")),
            (ValueError, "level must be", lambda: opmeter.start(level=7)),
            (ValueError, "overflow must be", lambda: opmeter.start(overflow="explode")),
            (TypeError, "PathLike", lambda: opmeter.start(path=3)),
        ]
        for kind, text, call in cases:
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                call()
        self.assertFalse(opmeter.recording())


class Errors(Case):
    def test_exception_propagates_and_closes(self):
        def work():
            with self.assertRaisesRegex(KeyError, "lost"):
                with opmeter.span("outer"):
                    with opmeter.span("inner"):
                        raise KeyError("lost")
            with opmeter.span("after"):
                pass
        rows = self.recorded(work).rows("SELECT name, depth, dur >= 0 AS ended, args FROM span")
        self.assertEqual([(r["name"], r["depth"], r["ended"], r["args"]) for r in rows],
                         [("outer", 0, 1, '{"exception":"KeyError"}'),
                          ("inner", 1, 1, '{"exception":"KeyError"}'), ("after", 0, 1, None)])
        self.assertEqual(opmeter.stats()["unbalanced"], 0)

    def test_exit_stack(self):
        def work():
            with contextlib.ExitStack() as stack:
                stack.enter_context(opmeter.span("a"))
                stack.enter_context(opmeter.span("b"))
        self.assertEqual(self.names(self.recorded(work)), ["a", "b"])

    def test_stop_without_start(self):
        with self.assertRaisesRegex(opmeter.Error, "nothing is being recorded") as caught:
            opmeter.stop()
        self.assertEqual(caught.exception.code, opmeter.Error.EINVAL)

    def test_start_where_nothing_can_be_written(self):
        with self.assertRaisesRegex(opmeter.Error, "no-such-folder"):
            opmeter.start(self.path("no-such-folder/x.opm"))
        with opmeter.span("goes on"):
            pass


class Decorators(Case):
    def test_function(self):
        @opmeter.span("named")
        def add(a, b=2):
            """Adds."""
            return a + b
        trace = self.recorded(lambda: self.assertEqual(add(1, b=3), 4))
        self.assertEqual(self.names(trace), ["named"])
        self.assertEqual((add.__name__, add.__doc__), ("add", "Adds."))
        self.assertEqual(str(inspect.signature(add)), "(a, b=2)")

    def test_bare(self):
        @opmeter.span
        def plain():
            return 5
        trace = self.recorded(lambda: self.assertEqual(plain(), 5))
        self.assertRegex(self.names(trace)[0], "plain$")

    def test_method_and_recursion(self):
        class Thing:
            @opmeter.span("down")
            def down(self, n):
                return n and self.down(n - 1)
        rows = self.recorded(lambda: Thing().down(3)).rows("SELECT depth FROM span ORDER BY id")
        self.assertEqual([row["depth"] for row in rows], [0, 1, 2, 3])

    def test_generator(self):
        @opmeter.span("gen")
        def count(n):
            for i in range(n):
                yield i
            return "end"

        def work():
            first, second = count(2), count(3)
            pairs = []
            next(first)
            with opmeter.span("between"):
                pairs.append(next(second))
            pairs += list(first) + list(second)
            self.assertEqual(pairs, [0, 1, 1, 2])
        trace = self.recorded(work)
        self.assertTrue(inspect.isgeneratorfunction(count))
        self.assertEqual(sorted(self.names(trace)), ["between", "gen", "gen"])
        self.assertEqual(trace.value("SELECT count(*) FROM span WHERE dur < 0"), 0)
        self.assertEqual(opmeter.stats()["unbalanced"], 0)

    def test_coroutine_and_async_generator(self):
        @opmeter.span("gen")
        async def count():
            yield 1
            yield 2

        @opmeter.span("co")
        async def add():
            return sum([i async for i in count()])
        self.assertTrue(inspect.iscoroutinefunction(add))
        self.assertTrue(inspect.isasyncgenfunction(count))
        trace = self.recorded(lambda: self.assertEqual(asyncio.run(add()), 3))
        self.assertEqual(sorted(self.names(trace)), ["co", "gen"])


class Concurrency(Case):
    def test_threads_share_an_object(self):
        shared = opmeter.span("shared")
        barrier = threading.Barrier(4)

        def work():
            barrier.wait()
            for _ in range(1000):
                with shared:
                    with shared:
                        pass

        def run():
            threads = [threading.Thread(target=work, name=f"worker {i}") for i in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        trace = self.recorded(run)
        self.assertEqual(trace.rows(
            "SELECT t.name, count(*) AS n, sum(depth) AS depth FROM span"
            " JOIN track AS t ON t.id = span.track GROUP BY t.name ORDER BY t.name"),
            [{"name": f"worker {i}", "n": 2000, "depth": 1000} for i in range(4)])
        self.assertEqual(opmeter.stats()["unbalanced"], 0)

    def test_main_thread_is_named_in_each_recording(self):
        def work():
            with opmeter.span("x"):
                pass
        for _ in range(2):
            self.assertEqual(self.recorded(work).value(
                "SELECT t.name FROM span JOIN track AS t ON t.id = span.track"), "MainThread")

    def test_coroutines_interleave(self):
        """Each is suspended inside its span, while others begin and end theirs."""
        async def one(order):
            with opmeter.span("task", n=order):
                for _ in range(3):
                    await asyncio.sleep(0)
                    with opmeter.span("sync"):
                        pass

        async def every():
            with opmeter.span("all"):
                await asyncio.gather(*(one(i) for i in range(5)))
        trace = self.recorded(lambda: asyncio.run(every()))
        self.assertEqual(opmeter.stats()["unbalanced"], 0)
        self.assertEqual(trace.rows("SELECT name, count(*) AS n, min(dur) >= 0 AS ended FROM span"
                                    " GROUP BY name ORDER BY name"),
                         [{"name": "all", "n": 1, "ended": 1},
                          {"name": "sync", "n": 15, "ended": 1},
                          {"name": "task", "n": 5, "ended": 1}])

    def test_async_with(self):
        async def one():
            async with opmeter.span("task") as s:
                s.set(n=1)
                await asyncio.sleep(0)

        async def every():
            for _ in range(10):
                with opmeter.span("task"):  # in turn with the other kind
                    pass
                await asyncio.gather(*(one() for _ in range(3)))
            with self.assertRaises(KeyError):
                async with opmeter.span("failing"):
                    raise KeyError
        trace = self.recorded(lambda: asyncio.run(every()))
        self.assertEqual(opmeter.stats()["unbalanced"], 0)
        self.assertEqual(trace.rows("SELECT name, count(*) AS n FROM span WHERE dur >= 0"
                                    " GROUP BY name ORDER BY name"),
                         [{"name": "failing", "n": 1}, {"name": "task", "n": 40}])

    def test_a_settled_name_used_by_coroutines_later(self):
        """Spans that get out of order have their name looked at again."""
        def work():
            for _ in range(50):
                with opmeter.span("both"):
                    pass

            async def one():
                with opmeter.span("both"):
                    await asyncio.sleep(0)

            async def every():
                await asyncio.gather(*(one() for _ in range(4)))
            asyncio.run(every())
            before = opmeter.stats()["unbalanced"]
            asyncio.run(every())
            self.assertEqual(opmeter.stats()["unbalanced"], before)
        self.recorded(work)
