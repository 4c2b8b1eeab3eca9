"""Takes a project apart: functions are emptied module by module, and for each emptied module it is found out by running
the tests which of them need it, and which small fault they notice.

    prepare.py REFERENCE OUT < {"package": "src/isodate", "path": "src", "tests": ["tests"], "whole": []}

OUT/plan.json then has an entry for each module: its imports among the emptied ones, and its tests, which are red while
it is empty and green as soon as it and its imports are whole. OUT/stubs and OUT/spoiled have the texts. Nothing depends
on chance or time.
"""

import ast
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

STUB = "raise NotImplementedError"
# A check names at most so many tests, and a fault is looked for among so many.
MOST_TESTS = 6
MOST_FAULTS = 40
SECONDS = 120


def functions(tree):
    """Functions of the module and methods of its classes, not those within functions."""
    for node in tree.body:
        stack = [node]
        while stack:
            node = stack.pop()
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node
            elif isinstance(node, (ast.ClassDef, ast.If, ast.Try)):
                stack.extend(reversed(node.body + getattr(node, "orelse", [])))


def body(node):
    """The lines of a function after its docstring, as a range; nothing if there are none of its own."""
    statements = node.body
    first = statements[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        statements = statements[1:]
    if not statements:
        return None
    first = statements[0]
    begin = min([first.lineno] + [decorator.lineno for decorator in getattr(first, "decorator_list", [])])
    previous = node.body[0].end_lineno if statements is not node.body else node.lineno
    if begin <= previous:
        return None
    return begin, node.end_lineno, first.col_offset


def emptied(text, kept):
    """The text with every body replaced, but for functions that begin at one of these lines; and how many were."""
    lines = text.splitlines(keepends=True)
    count = 0
    for node in sorted(functions(ast.parse(text)), key=lambda node: -node.lineno):
        place = body(node)
        if place is None or node.lineno in kept:
            continue
        begin, end, indent = place
        lines[begin - 1 : end] = [" " * indent + STUB + "\n"]
        count += 1
    return "".join(lines), count


def faults(text):
    """Texts with one small fault each: a number off by one, a comparison or a truth turned round, a plus for a minus."""
    turned = {"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "is": "is not", "is not": "is",
              "in": "not in", "not in": "in"}
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def at(line, column):
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    for function in functions(ast.parse(text)):
        if body(function) is None:
            continue
        for node in (found for statement in function.body for found in ast.walk(statement)):
            if isinstance(node, ast.Compare) and len(node.ops) == 1:
                begin, end = at(node.left.end_lineno, node.left.end_col_offset), at(
                    node.comparators[0].lineno, node.comparators[0].col_offset)
                word = text[begin:end].strip(" ()\n")
                if word in turned and text[begin:end].count(word) == 1:
                    yield text[:begin] + text[begin:end].replace(word, turned[word]) + text[end:]
            elif isinstance(node, ast.Constant) and isinstance(node.value, int):
                begin, end = at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)
                if isinstance(node.value, bool):
                    yield text[:begin] + str(not node.value) + text[end:]
                elif text[begin:end].isdigit():
                    yield text[:begin] + str(node.value + 1) + text[end:]
            elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
                begin, end = at(node.left.end_lineno, node.left.end_col_offset), at(
                    node.right.lineno, node.right.col_offset)
                if text[begin:end].strip() in ("+", "-"):
                    yield text[:begin] + text[begin:end].translate(str.maketrans("+-", "-+")) + text[end:]
            elif isinstance(node, ast.Return) and node.value is not None:
                begin, end = at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)
                yield text[:begin] + "return None" + text[end:]


class Project:
    def __init__(self, reference, given):
        self.reference = pathlib.Path(reference)
        self.package = given["package"]
        self.path = given["path"]
        self.tests = given["tests"]
        folder = self.reference / self.package
        inside = [path.relative_to(self.reference).as_posix() for path in sorted(folder.rglob("*.py"))]
        self.whole = given["whole"]
        self.modules = [path for path in inside if not any(path.startswith(test) for test in self.tests)
                        and "/tests/" not in path and not path.endswith("__main__.py")]
        self.texts = {path: (self.reference / path).read_text() for path in self.modules}

    def name(self, path):
        relative = pathlib.PurePosixPath(path).relative_to(self.path).with_suffix("")
        parts = relative.parts[:-1] if relative.name == "__init__" else relative.parts
        return ".".join(parts)

    def imports(self, path):
        """Paths of modules that this one imports anywhere in it."""
        names = {self.name(module): module for module in self.modules}
        here = self.name(path).split(".")
        package = here if path.endswith("__init__.py") else here[:-1]
        found = set()
        for node in ast.walk(ast.parse(self.texts[path])):
            if isinstance(node, ast.Import):
                found.update(names[alias.name] for alias in node.names if alias.name in names)
            elif isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                base = ".".join(base + (node.module.split(".") if node.module else []))
                for alias in node.names:
                    whole = f"{base}.{alias.name}"
                    found.update(names[name] for name in ([whole] if whole in names else [base]) if name in names)
        return found - {path}

    def copy(self, texts):
        """The project in a temporary folder, with these modules instead of its own."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="aot-prepare-"))
        shutil.copytree(self.reference, folder / "it", ignore=shutil.ignore_patterns("__pycache__", ".git"))
        for path, text in texts.items():
            (folder / "it" / path).write_text(text)
        return folder / "it"

    def run(self, folder, arguments):
        environment = dict(os.environ, PYTHONPATH=self.path, PYTHONDONTWRITEBYTECODE="1")
        return subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, timeout=SECONDS,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")

    def passing(self, texts):
        """Tests that pass with these texts, without their parameters: one counts if it passes with all of them."""
        folder = self.copy(texts)
        try:
            done = self.run(folder, ["-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "--no-header", "--tb=no",
                                     "--color=no", "--continue-on-collection-errors", *self.tests])
        except subprocess.TimeoutExpired:
            return set()
        finally:
            shutil.rmtree(folder.parent)
        seen = {"PASSED": set(), "other": set()}
        for line in done.stdout.splitlines():
            match = re.match(r"(PASSED|FAILED|ERROR|SUBFAILED\S*) ([^\s\[]+)", line)
            if match:
                word, test = match.groups()
                seen["PASSED" if word == "PASSED" else "other"].add(test)
        return seen["PASSED"] - seen["other"]

    def is_green(self, texts, tests):
        folder = self.copy(texts)
        try:
            return self.run(folder, ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]).returncode == 0
        except subprocess.TimeoutExpired:
            # The fault is one that never ends: it is noticed, but waiting for it proves nothing more.
            return True
        finally:
            shutil.rmtree(folder.parent)

    def stubs(self):
        """Emptied modules that can all be imported: what runs at import stays."""
        kept = {path: set() for path in self.modules}
        names = [self.name(path) for path in self.modules]
        while True:
            texts = {path: emptied(text, kept[path]) for path, text in self.texts.items()}
            texts = {path: text for path, (text, count) in texts.items()
                     if count > 0 and path not in self.whole}
            folder = self.copy(texts)
            program = "import importlib, traceback, sys, json\n" + "".join(
                f"try:\n importlib.import_module({name!r})\nexcept NotImplementedError as error:\n"
                " frame = traceback.extract_tb(error.__traceback__)[-1]\n"
                " print(json.dumps([frame.filename, frame.lineno])); sys.exit(3)\n" for name in names)
            done = self.run(folder, ["-c", program])
            shutil.rmtree(folder.parent)
            if done.returncode == 0:
                return texts
            if done.returncode != 3:
                raise SystemExit(f"{self.package}: {done.stdout}")
            filename, line = json.loads(done.stdout.splitlines()[-1])
            path = pathlib.Path(filename).resolve().relative_to(folder.resolve()).as_posix()
            stub = ast.parse(texts[path])
            hit = max((node for node in functions(stub) if node.lineno <= line), key=lambda node: node.lineno)
            # Functions stand in the same order in both texts.
            place = [node.lineno for node in functions(stub)].index(hit.lineno)
            kept[path].add([node.lineno for node in functions(ast.parse(self.texts[path]))][place])


def nearest(path, imports, emptied):
    """The emptied modules that this one imports, itself or by way of modules that are whole."""
    found, seen, stack = set(), {path}, [path]
    while stack:
        for other in imports[stack.pop()] - seen:
            seen.add(other)
            if other in emptied:
                found.add(other)
            else:
                stack.append(other)
    return found


def closure(path, imports):
    found, stack = set(), [path]
    while stack:
        for other in imports[stack.pop()]:
            if other not in found:
                found.add(other)
                stack.append(other)
    return found


def main():
    reference, out = sys.argv[1:3]
    project = Project(reference, json.load(sys.stdin))
    out = pathlib.Path(out)
    stubs = project.stubs()
    imports = {path: project.imports(path) for path in project.modules}
    needs = {path: closure(path, imports) for path in stubs}
    # Modules that import each other in a circle cannot wait for one another.
    candidates = [path for path in stubs if path not in needs[path]]
    known = {}

    def passing(emptied):
        key = frozenset(emptied)
        if key not in known:
            known[key] = project.passing({path: stubs[path] for path in key})
        return known[key]

    whole = passing([])
    while True:
        plan, dropped = [], []
        for path in sorted(candidates, key=lambda path: (len(needs[path]), path)):
            rest = {other for other in candidates if other not in needs[path]}
            red, green = passing(rest), passing(rest - {path})
            tests = sorted((green - red) & whole)
            # A few of them, from the first to the last.
            tests = tests[:: max(1, len(tests) // MOST_TESTS)][:MOST_TESTS]
            others = {other: stubs[other] for other in rest if other != path}
            found = list(faults(project.texts[path])) if tests else []
            found = found[:: max(1, len(found) // MOST_FAULTS)]
            spoiled = next((text for text in found if not project.is_green({**others, path: text}, tests)), None)
            if spoiled is None:
                dropped.append(path)
                continue
            depends_on = sorted(nearest(path, imports, set(candidates)))
            plan.append({"path": path, "depends_on": depends_on, "tests": tests})
            for kind, text in (("stubs", stubs[path]), ("spoiled", spoiled)):
                (out / kind / path).parent.mkdir(parents=True, exist_ok=True)
                (out / kind / path).write_text(text)
        if not dropped:
            break
        # A module that no test needs by itself stays whole, and the others are looked at again without it.
        print(f"{project.package}: no test of their own: {json.dumps(dropped)}", file=sys.stderr)
        candidates = [path for path in candidates if path not in dropped]
    json.dump({"atoms": plan, "tests": len(whole)}, (out / "plan.json").open("w"), indent=1)


main()
