"""Captures two graphs into one pool and drops them; prints what is reserved with 2, 1, 0 and 1 again."""

import gc
import json

import stweaver

import torch

stweaver.enable(way="pluggable")
pool = torch.cuda.graph_pool_handle()


def capture() -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        torch.zeros(64 << 20, dtype=torch.uint8, device="cuda")
    return graph


def reserved() -> int:
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return stweaver.stats().devices[0].fallback_reserved


graphs = [capture(), capture()]
found = [reserved()]
while graphs:
    graphs.pop()
    found.append(reserved())
graphs.append(capture())
found.append(reserved())
print(json.dumps(found))
