"""One call of the same network in PyTorch, eager mode, one thread: 64 ready tasks x 100 nodes, features ready made.

    pip install torch numpy && python policies/benches/torch_step.py

The Rust side is `cargo bench -p mdts-policies --bench mdts -- "network alone"`; with "decision step" it also computes
the features and places the tasks.
"""
import statistics
import time

import torch

TASKS, NODES = 64, 100
PER_TASK, PER_NODE, PER_PAIR, OF_ALL, WIDTH, LIVE = 9, 4, 10, 7, 32, 2


class PairNetwork(torch.nn.Module):
    def __init__(self):
        super().__init__()
        linear = torch.nn.Linear
        self.task, self.node = linear(PER_TASK, WIDTH), linear(PER_NODE, WIDTH)
        self.trunk, self.value = linear(2 * WIDTH + OF_ALL, WIDTH), linear(WIDTH, 1)
        self.from_pair = linear(PER_PAIR, WIDTH)
        self.from_task, self.from_node, self.from_trunk = (linear(WIDTH, WIDTH) for _ in range(3))
        self.out, self.live = linear(WIDTH, 1), linear(WIDTH, LIVE)

    def forward(self, task, node, pair, all_, late):
        task, node = torch.relu(self.task(task)), torch.relu(self.node(node))
        trunk = torch.relu(self.trunk(torch.cat([task.mean(0), node.mean(0), all_])))
        by_task = self.from_task(task) + self.from_trunk(trunk)
        hidden = torch.relu(self.from_pair(pair) + by_task[:, None] + self.from_node(node)[None])
        return self.out(hidden).squeeze(-1) + late @ self.live(trunk), self.value(trunk)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    network = PairNetwork().eval()
    inputs = (
        torch.rand(TASKS, PER_TASK),
        torch.rand(NODES, PER_NODE),
        torch.rand(TASKS, NODES, PER_PAIR),
        torch.rand(OF_ALL),
        torch.rand(TASKS, NODES, LIVE),
    )
    times = []
    with torch.inference_mode():
        for _ in range(1100):
            begin = time.perf_counter()
            network(*inputs)
            times.append(time.perf_counter() - begin)
    print(f"torch {torch.__version__}, 1 thread: median {statistics.median(times[100:]) * 1e3:.3f} ms per call")


if __name__ == "__main__":
    main()
