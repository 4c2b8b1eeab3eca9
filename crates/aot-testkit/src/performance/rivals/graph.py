"""A graph of nodes, with a checkpoint in SQLite after each step: graph.py NODES WIDTH DATABASE COMMAND

Without a command the nodes start no process."""
import operator
import subprocess
import sys
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

nodes, width, database, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]


class State(TypedDict):
    done: Annotated[list, operator.add]


def work(node):
    if command:
        subprocess.run(["/bin/sh", "-c", command.format(node)], check=True)
    return {"done": [node]}


graph = StateGraph(State)
for node in range(nodes):
    graph.add_node(f"A{node}", lambda state, node=node: work(node))
    row, place = divmod(node, width)
    if row == 0:
        graph.add_edge(START, f"A{node}")
    else:
        before = [(row - 1) * width + place, (row - 1) * width + (place + 1) % width]
        graph.add_edge([f"A{one}" for one in before], f"A{node}")
    if row == nodes // width - 1:
        graph.add_edge(f"A{node}", END)

with SqliteSaver.from_conn_string(database) as saver:
    compiled = graph.compile(checkpointer=saver)
    limits = {"configurable": {"thread_id": "1"}, "recursion_limit": nodes + 10, "max_concurrency": 8}
    state = compiled.invoke({"done": []}, limits, durability="sync")
    assert sorted(state["done"]) == list(range(nodes)), "not all nodes ran"
