"""A graph network of torch_geometric on batches of random graphs of varying sizes."""

import importlib
import random
from typing import Any

from steps import STEPS, StepLog

import torch

BATCH, FEATURES, HIDDEN, CLASSES, LAYERS = 64, 128, 512, 64, 6
NODES, NEIGHBOURS = (500, 4000), 8  # of a graph; of a node
ADAM: Any = torch.optim.Adam


def graph(draw: random.Random, generator: torch.Generator) -> dict[str, Any]:
    """Draw nodes, edges and the class of a graph."""
    nodes = draw.randint(*NODES)
    return {
        "x": torch.randn(nodes, FEATURES, generator=generator),
        "edge_index": torch.randint(0, nodes, (2, nodes * NEIGHBOURS), generator=generator),
        "y": torch.tensor([draw.randrange(CLASSES)]),
    }


def main() -> None:
    nets: Any = importlib.import_module("torch_geometric.nn")
    data: Any = importlib.import_module("torch_geometric.data")
    torch.manual_seed(0)
    draw, generator = random.Random(0), torch.Generator().manual_seed(0)
    body = nets.GraphSAGE(FEATURES, HIDDEN, LAYERS, dropout=0.1, norm="layer_norm").cuda()
    head = torch.nn.Linear(HIDDEN, CLASSES).cuda()
    optimizer = ADAM([*body.parameters(), *head.parameters()], lr=1e-3)
    log = StepLog()
    for _ in range(STEPS):
        graphs = [data.Data(**graph(draw, generator)) for _ in range(BATCH)]
        batch = data.Batch.from_data_list(graphs).to("cuda")
        nodes = body(batch.x, batch.edge_index)
        pooled = nets.global_mean_pool(nodes, batch.batch, batch.num_graphs)
        torch.nn.functional.cross_entropy(head(pooled), batch.y).backward()
        optimizer.step()
        optimizer.zero_grad()
        log.end()


if __name__ == "__main__":
    main()
