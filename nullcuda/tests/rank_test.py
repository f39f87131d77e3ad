"""One process as rank r of N: whatever it asks of its peers is answered at once, as if they were like it."""

import pytest
from programs import needs_torch, run

pytestmark = needs_torch

INIT = """
    import os
    import torch.distributed as dist
    rank, world, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    torch.cuda.set_device(local)
    dist.init_process_group("nccl", device_id=torch.device("cuda", local))
    assert (dist.get_rank(), dist.get_world_size()) == (rank, world)
"""


def rank(program: str, number: int = 3, world: int = 8) -> dict[str, object]:
    options = ("--values", "--rank", str(number), "--world", str(world))
    found: dict[str, object] = run(INIT + program, *options)
    return found


def test_collectives() -> None:
    found = rank("""
    ones = torch.ones(4, device="cuda")
    total, most = ones.clone(), ones.clone() * rank
    dist.all_reduce(total); dist.all_reduce(most, op=dist.ReduceOp.MAX); dist.barrier()
    parts = [torch.empty_like(ones) for _ in range(world)]
    dist.all_gather(parts, ones * rank)
    whole = torch.empty(4 * world, device="cuda"); dist.all_gather_into_tensor(whole, ones * 2)
    part = torch.empty(4, device="cuda"); dist.reduce_scatter_tensor(part, torch.arange(32.0, device="cuda"))
    unknown_total = unknown(4); dist.all_reduce(unknown_total)
    say(total=total.tolist(), most=most.tolist(), parts=[int(p[0]) for p in parts], whole=whole.sum().item(),
        part=part.tolist(), knows=knows(unknown_total))
    """)
    assert found == {
        "total": [8.0] * 4, "most": [3.0] * 4, "parts": [3] * 8, "whole": 64.0,
        "part": [96.0, 104.0, 112.0, 120.0], "knows": False,
    }  # fmt: skip


def test_splits_of_all_to_all() -> None:
    found = rank("""
    counts = torch.arange(1, 9, device="cuda"); heard = torch.empty_like(counts)
    dist.all_to_all_single(heard, counts)
    rows = heard.tolist()
    out = torch.empty(sum(rows), 2, device="cuda")
    dist.all_to_all_single(out, torch.ones(36, 2, device="cuda"), rows, counts.tolist())
    lists = [torch.empty(2, device="cuda") for _ in range(world)]
    dist.all_to_all(lists, [torch.full((2,), float(i), device="cuda") for i in range(world)])
    say(rows=rows, sum=out.sum().item(), lists=[int(t[0]) for t in lists])
    """)
    # Peers send to rank 3 what it would send to itself.
    assert found == {"rows": [4] * 8, "sum": 64.0, "lists": [3] * 8}


def test_groups_and_meshes() -> None:
    found = rank("""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
    odd = dist.new_group([1, 3, 5]); others = dist.new_group([0, 2])
    halves = dist.split_group(split_ranks=[[0, 1, 2, 3], [4, 5, 6, 7]])
    x = torch.ones(1, device="cuda"); dist.all_reduce(x, group=odd); dist.all_reduce(x, group=halves)
    mesh = init_device_mesh("cuda", (4, 2), mesh_dim_names=("dp", "tp"))
    given = distribute_tensor(torch.ones(8, 8, device="cuda"), mesh, [Shard(0), Shard(1)])
    d = DTensor.from_local(torch.ones(2, 4, device="cuda"), mesh, [Shard(0), Shard(1)])
    say(sum=x.item(), place=[mesh["dp"].get_local_rank(), mesh["tp"].get_local_rank()],
        local=list(given.to_local().shape),
        whole=(d + d).redistribute(mesh, [Replicate(), Replicate()]).to_local().sum().item(),
        total=d.sum().full_tensor().item(), outside=others == dist.GroupMember.NON_GROUP_MEMBER)
    """)
    assert found == {
        "sum": 12.0, "place": [1, 1], "local": [2, 4], "whole": 128.0, "total": 64.0, "outside": True
    }  # fmt: skip


def test_objects_and_gloo() -> None:
    found = rank(
        """
    objects = [None] * world; dist.all_gather_object(objects, {"rank": rank})
    heard = [{"mine": 1}]; dist.broadcast_object_list(heard, src=0)
    gathered = [None] * world; dist.gather_object("x" * 100, gathered, dst=0)
    gloo = dist.new_group(backend="gloo")
    x = torch.ones(2); dist.all_reduce(x, group=gloo)
    dist.monitored_barrier(group=gloo); dist.barrier(group=gloo)
    texts = [None] * world; dist.all_gather_object(texts, "text", group=gloo)
    out = torch.empty(2); dist.reduce_scatter(out, [torch.ones(2)] * world, group=gloo)
    say(objects=objects, heard=heard, gathered=gathered, x=x.tolist(), texts=texts, out=out.tolist())
    """,
        number=0,
    )
    assert found == {
        "objects": [{"rank": 0}] * 8, "heard": [{"mine": 1}], "gathered": ["x" * 100] * 8, "x": [8.0] * 2,
        "texts": ["text"] * 8, "out": [8.0] * 2,
    }  # fmt: skip


def test_stores_never_wait() -> None:
    found = rank("""
    from datetime import timedelta
    store = dist.TCPStore("absent.example", 1, world, rank == 0, timedelta(days=1))
    store.set(f"of rank {rank}", "mine")
    prefixed = dist.PrefixStore("in", store)
    prefixed.wait(["nobody wrote this"])
    count = prefixed.add("counter", 1)
    say(peers=store.get("of rank 5").decode(), count=count, written=store.check(["no"]),
        kind=isinstance(store, dist.TCPStore), set=prefixed.compare_set("a", "", "b").decode())
    """)
    assert found == {"peers": "mine", "count": 8, "written": False, "kind": True, "set": "b"}


def test_pipelines_hear_what_they_said() -> None:
    found = rank("""
    shape = torch.tensor([2048, 1, 4096], device="cuda")
    there, back = (rank + 1) % world, rank - 1
    dist.send(shape, there)
    heard = torch.empty(3, dtype=torch.long, device="cuda"); dist.recv(heard, back)
    again = torch.empty(3, dtype=torch.long, device="cuda")
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, shape * 2, there),
                                        dist.P2POp(dist.irecv, again, back)]):
        work.wait()
    activation = torch.ones(16, 16, device="cuda"); dist.recv(activation, back)
    say(heard=heard.tolist(), again=again.tolist(), knows=knows(activation))
    """)
    assert found == {"heard": [2048, 1, 4096], "again": [4096, 2, 8192], "knows": False}


STEPS = """
    import torch.nn as nn
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
    from torch.nn.parallel import DistributedDataParallel

    def layers(): return nn.Sequential(*[nn.Linear(64, 64) for _ in range(4)]).cuda()
    def sharded():
        model = layers()
        for layer in model: fully_shard(layer)
        return fully_shard(model)
    def one(): return FullyShardedDataParallel(layers(), use_orig_params=True, device_id=local)
    def parallel(): return DistributedDataParallel(layers(), device_ids=[local])

    model = MAKE()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        loss = model(torch.randn(8, 64, device="cuda")).square().mean()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step(); optimizer.zero_grad()
    say(finite=bool(torch.isfinite(loss)), parameters=sum(p.to_local().numel() if hasattr(p, "to_local") else
        p.numel() for p in model.parameters()), steps=int(next(iter(optimizer.state.values()))["step"]))
"""


@pytest.mark.parametrize(("number", "world"), [(0, 2), (1, 2), (5, 8), (37, 64)])
def test_fsdp2(number: int, world: int) -> None:
    found = rank(STEPS.replace("MAKE", "sharded"), number, world)
    assert found == {"finite": True, "parameters": 4 * (64 * 64 + 64) // world, "steps": 3}


@pytest.mark.parametrize("kind", ["one", "parallel"])
def test_fsdp1_and_ddp(kind: str) -> None:
    found = rank(STEPS.replace("MAKE", kind))
    assert found["finite"]
    assert found["steps"] == 3
