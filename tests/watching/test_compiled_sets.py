"""What a script compiles holds nothing of the watching of what it puts into batches."""

import torch
from tensordict import TensorDict

import rnncheck


def put(td: TensorDict) -> TensorDict:
    td["twice"] = td["one"] * 2
    return td.set("more", td["twice"] + 1)


def test_a_whole_graph_is_compiled_of_lines_that_put_entries_into_a_batch() -> None:
    compiled = torch.compile(put, fullgraph=True, backend="eager")
    with rnncheck.watch():
        made = compiled(TensorDict({"one": torch.ones(4, 3)}, [4]))
    assert made["more"].unique().tolist() == [3.0]
