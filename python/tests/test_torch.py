"""Training loops: Training and Callback."""
import unittest

import opmeter
from support import Case, needs


class Callbacks(Case):
    """As the loops of Hugging Face's Trainer and of Lightning call them."""

    def test_trainer(self):
        callback = opmeter.torch.Callback("bert", warm_up=1)
        opmeter.start(self.path("x.opm"))
        callback.on_train_begin("arguments", "state", control=None)
        for _ in range(3):
            callback.on_step_begin("arguments", "state", control=None)
            callback.on_step_end("arguments", "state", control=None)
            callback.on_log("arguments", "state", control=None, logs={})
        callback.on_train_end("arguments", "state", control=None)
        opmeter.stop()
        with opmeter.open(self.path("x.opm")) as trace:
            rows = trace.rows("SELECT model, num, warmup FROM step ORDER BY num")
        self.assertEqual(rows, [{"model": "bert", "num": i, "warmup": int(i == 0)}
                                for i in range(3)])

    def test_lightning(self):
        callback = opmeter.torch.Callback()
        callback.setup("trainer", "module", stage="fit")
        opmeter.start(self.path("x.opm"))
        callback.on_train_batch_start("trainer", "module", "batch", 0)
        callback.on_train_batch_end("trainer", "module", "outputs", "batch", 0)
        opmeter.stop()
        with opmeter.open(self.path("x.opm")) as trace:
            self.assertEqual(trace.value("SELECT count(*) FROM step"), 1)
        self.assertRaises(AttributeError, getattr, callback, "step")


class Loops(Case):
    def test_steps(self):
        opmeter.start(self.path("x.opm"))
        with opmeter.torch.Training("net", first=5) as training:
            for _ in range(4):
                training.forward()
                training.backward()
                training.update()
                training.step()
        opmeter.stop()
        with opmeter.open(self.path("x.opm")) as trace:
            rows = trace.rows("SELECT num, forward_ns, backward_ns, update_ns FROM step_trace "
                              "WHERE num < 9")
        self.assertEqual([row["num"] for row in rows], [5, 6, 7, 8])
        for row in rows:
            self.assertNotIn(None, row.values())
        self.assertRaises(ValueError, training.step)

    @needs("torch")
    def test_hooks(self):
        import torch
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        optimizer = torch.optim.SGD(net.parameters(), lr=.01)
        training = opmeter.torch.Training("net", net, optimizer, warm_up=1)
        opmeter.start(self.path("x.opm"))
        with training:
            for _ in range(3):
                loss = net(torch.ones(2, 4)).sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                training.step()
        opmeter.stop()
        self.assertNotIn("step", vars(optimizer))
        net(torch.ones(2, 4)).sum().backward()  # nobody watches any more
        with opmeter.open(self.path("x.opm")) as trace:
            rows = trace.rows("SELECT warmup, split_by, forward_ns, backward_ns, update_ns "
                              "FROM step_trace WHERE num < 3")
        self.assertEqual([row["warmup"] for row in rows], [1, 0, 0])
        for row in rows:
            self.assertEqual(row["split_by"], "phases")
            self.assertNotIn(None, row.values())


if __name__ == "__main__":
    unittest.main()
