"""Everything that a README or NOTES.md names in code style exists.

named_things_test.py ONEFLOW        the program, whose manual lists commands and flags

A page's code spans and its indented blocks of commands are read. What is looked at, and where it must be:

    path, link           a tracked file or folder: from the root, from the page, or the end of a path in the page's
                         room. An output, which is in no tree, must be named by a source
    --flag, -f           a flag of the command in the same span; alone, of any command; behind a script of ours, in its
                         text
    oneflow COMMAND      a command of the manual
    field.of.config      a field of JobConfig (proto/job.proto); also behind --set, and as protobuf text:
                         `checkpoint { every: 500 }`; also of a table of names (proto/weight_mapping.proto)
    identifier, a-name   a word of some source: a function, constant, op, environment variable, test, pass, case of the
                         bench; or a file without its ending
    anything in capitals is a placeholder
"""

import fnmatch
import functools
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ONEFLOW = None  # the program

# Names that pages need and no source of ours has, with the reason.
KNOWN = {
    "--gtest_filter": "GoogleTest's",
    "--parent-only": "Slurm's",
    "CUDA_MODULE_LOADING": "CUDA's",
    "UCX_TCP_PORT_RANGE": "UCX's",
    "bearer_token": "Prometheus'",
    "compile_commands.json": "CMake's",
    "cudaMemcpy3D": "CUDA's, and not called",
    "oneflow worker": "what daemons start; not for people, so not in the manual",
    "openat2": "Linux's",
    "sdpa_sm90_flash_fprop_wgmma": "a kernel that cuDNN makes",
    "_bprop_wgmma": "the end of the name of another",
    "target_clones": "GCC's, and not used",
    "train/grad_norm": "a tag of TensorBoard, made of a plan and a name",
    "train/loss_scale": "likewise",
}
# Programs of others: their flags are not looked at.
FOREIGN = {"chrt", "cmake", "man", "perf", "sbatch"}
SOURCE = re.compile(r"\.(h|cc|cu|cuh|proto|py|cmake|md|pbtxt)$")
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DASHED = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")
TEXT_PROTOS = ["proto/job.proto", "proto/weight_mapping.proto"]
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9_-]*")


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


@functools.cache
def files():
    return git("ls-files").split()


@functools.cache
def folders():
    return {str(parent) for file in files() for parent in pathlib.PurePath(file).parents} - {"."}


@functools.cache
def pages():
    return [file for file in files() if re.search(r"(^|/)(README|NOTES)\.md$", file)]


@functools.cache
def sources():
    """The text of all sources but pages and this one."""
    text = []
    for file in files():
        path = ROOT / file
        if file.endswith(".md") or path == pathlib.Path(__file__).resolve() or not path.is_file():
            continue
        text.append(path.read_text(errors="ignore"))
    return "\n".join(text)


@functools.cache
def words():
    """Of sources, the names of files without their endings, and programs of tests (test/CMakeLists.txt: room_test)."""
    stems = {pathlib.PurePath(file).name.split(".")[0] for file in files()}
    programs = {pathlib.PurePath(folder).name + "_test" for folder in folders() if re.fullmatch(r"test/\w+", folder)}
    return set(WORD.findall(sources())) | stems | programs


@functools.cache
def dashed():
    return set(DASHED.findall(sources()))


@functools.cache
def manual():
    """By command ("", "plan", "plan show"): its flags."""
    text = subprocess.run([ONEFLOW, "man"], capture_output=True, text=True, check=True).stdout.replace("\\-", "-")
    flags, command = {"": {"-h", "--help", "--version"}}, ""
    for line in text.split("\n"):
        if line.startswith(".SS oneflow "):
            command = line[len(".SS oneflow "):]
            flags[command] = set()
        elif line.startswith(".B -"):
            flags[command] |= set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", line))
    return flags


@functools.cache
def messages():
    """By message that people write as text: {field: its type}."""
    text = re.sub(r"//.*", "", "".join((ROOT / file).read_text() for file in TEXT_PROTOS))
    text = re.sub(r"\s*\[\(field\).*?\];", ";", text)  # what fields declare of themselves
    found, stack = {}, []
    for token in re.finditer(
            r"message\s+(\w+)\s*{|(?:oneof|enum)\s+\w+\s*{|}|"
            r"(?:repeated\s+|optional\s+)?(map<[^>]*>|[\w.]+)\s+(\w+)\s*=\s*\d+[^;{}]*;", text):
        if token.group(0) == "}":
            stack.pop()
        elif token.group(0).endswith("{"):
            stack.append(token.group(1) or (stack[-1] if token.group(0).startswith("oneof") else None))
            if token.group(1):
                found[token.group(1)] = {}
        elif stack and stack[-1]:
            kind = token.group(2)
            found[stack[-1]][token.group(3)] = re.sub(r".*,\s*|>", "", kind) if kind.startswith("map") else kind
    return found


def is_field(path, message="JobConfig"):
    for name in path.split("."):
        fields = messages().get(message)
        if fields is None or name not in fields:
            return False
        message = fields[name]
    return True


def is_text(text, message="JobConfig"):
    """Whether it is protobuf text of the message, as far as names go."""
    stack = [message]
    for name, colon, opens, closes in re.findall(r"(\w+)\s*(?:(:)(?!\s*{)|:?\s*({))|(})",
                                                 re.sub(r'"[^"]*"', "0", text)):
        if closes:
            stack.pop()
            continue
        kind = messages().get(stack[-1], {}).get(name) if stack else None
        if kind is None:
            return False
        if opens:
            stack.append(kind)
    return True


def expand(path):
    """"a.{h,cc}": both."""
    found = re.match(r"(.*){([^{}]*)}(.*)$", path)
    return [path] if found is None else [found.group(1) + part + found.group(3) for part in found.group(2).split(",")]


def is_placeholder(text):
    return re.fullmatch(r"[A-Z][A-Z0-9]*|…|\.\.\.", text) is not None and text not in ("README", "NOTES")


class Page:
    needed = set()  # of KNOWN, by all pages

    def __init__(self, file, text):
        self.file, self.text, self.wrong = file, text, []
        self.folder = str(pathlib.PurePath(file).parent)

    def says(self, name, what, of):
        if name in KNOWN:
            self.needed.add(name)
        else:
            self.wrong.append(f"{self.file}: '{of}': {what}")

    def check(self):
        prose = re.sub(r"^```.*?^```$", "", self.text, flags=re.M | re.S)
        for block in re.findall(r"(?:(?<=\n\n)|\A)(?: {4}.*\n)+", prose):
            for line in block.split("\n"):
                self.check_line(line.strip())
        prose = re.sub(r"(?:(?<=\n\n)|\A)(?: {4}.*\n)+", "", prose)
        for span in re.findall(r"`([^`]+)`", prose):
            self.check_span(" ".join(span.replace("\\|", "|").split()))
        for line in prose.split("\n"):
            if line.startswith("| `oneflow "):
                self.check_commands(line)
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", prose)):
            self.check_link(target)
        return self.wrong

    def check_line(self, line):
        """A line of an indented block, if it is a command: it ends at two spaces or '#'."""
        line = re.split(r"\s{2,}|\s#\s", line)[0]
        if re.match(r"(?:[A-Z_]+=\S+ )*(?:oneflow|tools/\S+)(?: |$)", line):
            self.check_span(line)

    def check_commands(self, line):
        """In a table of commands the spans of the first cell begin with commands, 'oneflow' being said once."""
        cell = re.split(r"(?<!\\)\|", line)[1]
        for span in re.findall(r"`([^`]+)`", cell):
            first = span.split()[0]
            if first not in {name.split()[0] for name in manual() if name} | {"oneflow", "srun", "mpirun"}:
                self.says(first, f"the manual has no command '{first}'", span)

    def check_link(self, target):
        if re.match(r"https?:", target):
            return
        path, _, anchor = target.partition("#")
        file = ROOT / self.folder / path if path else ROOT / self.file
        if not file.exists():
            return self.says(target, "no such file", target)
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(), re.M)
            if anchor not in {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}:
                self.says(target, "no such heading", target)

    def check_span(self, span):
        if "->" in span:
            return  # a rule of an op
        if re.match(r"[a-z_]+(: [^ ]+| ?{ ?[a-z_].*)$", span):
            if not any(is_text(span, message) for message in messages()):
                self.says(span, "not the text of a job config", span)
            return
        tokens = [token for token in re.sub(r"[\[\]…]|\.\.\.", " ", re.sub(r"\[=[A-Z]+\]", "", span)).split()]
        while tokens and re.match(r"[A-Z_]+=", tokens[0]):
            self.check_word(tokens.pop(0).split("=")[0], span)
        if not tokens:
            return
        if tokens[0] in FOREIGN:
            tokens = tokens[tokens.index("oneflow"):] if "oneflow" in tokens else []
        if "|" in tokens:
            tokens = tokens[:tokens.index("|")]  # what follows is another program's
        if not tokens:
            return
        if "oneflow" in tokens[:2]:
            self.check_command(tokens[tokens.index("oneflow") + 1:], span)
        elif len(tokens) == 1 and not span.startswith("-"):
            self.check_token(tokens[0], span)
        else:
            self.check_others(tokens, span)

    def check_others(self, tokens, span):
        """Flags alone, commands of the manual without 'oneflow' before them, and other programs."""
        script = ROOT / tokens[0]
        named = script.is_file() and script.read_text(errors="ignore")
        for token in tokens:
            for flag in FLAG.findall(token) + re.findall(r"^-[a-z]$", token):
                if not (flag in named if named else any(flag in flags for flags in manual().values())):
                    self.says(flag, f"no flag '{flag}'", span)
            if token.split("/")[0] in folders():
                self.check_path(token, span)
            if match := re.match(r"-D(\w+)", token):
                self.check_word(match.group(1), span)
        self.check_values(tokens, span)

    def check_command(self, tokens, span):
        commands = [""]
        while tokens and re.fullmatch(r"[a-z][a-z|]*", tokens[0]):
            longer = [f"{c} {t}".strip() for c in commands for t in tokens[0].split("|")]
            if not all(name in manual() for name in longer):
                if not any(name.startswith(c + " ") for c in commands for name in manual()) and commands != [""]:
                    break  # an argument
                return self.says(f"oneflow {tokens[0]}", "the manual has no such command", span)
            commands, tokens = longer, tokens[1:]
        known = set().union({"-h", "--help", "--version"}, *(manual()[c] for c in commands))
        for token in tokens:
            for flag in FLAG.findall(token) + re.findall(r"^-[a-z]$", token):
                if flag not in known:
                    self.says(flag, f"'{' or '.join(commands)}' has no flag '{flag}'", span)
        self.check_values(tokens, span)

    def check_values(self, tokens, span):
        for flag, value in zip(tokens, tokens[1:]):
            field = value.strip("'").split("=")[0]
            if flag.startswith("--set") and "=" in value and field != "path" and not is_field(field):
                self.says(field, f"no field '{field}'", span)
            if flag == "--cases" and not value.startswith("-"):
                for case in value.split(","):
                    self.check_case(case, span)
        for name in re.findall(r"--gtest_filter='?-?(\w+)Test\b", span):
            self.check_word(name + "Test", span)

    def check_token(self, token, span):
        token = token.rstrip(",:;")
        if "://" in token or token.startswith(("/", "$", "<", "~")):
            return
        if "/" in token or SOURCE.search(token):
            return self.check_path(token, span)
        name = token.split("=")[0]
        if re.fullmatch(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)+", name):
            if not is_field(name) and name not in sources():
                self.says(name, "no field of JobConfig, and in no source", span)
            return
        if re.fullmatch(r"[A-Za-z_]\w*(::\w+)*(\(\))?", name):
            for part in name.rstrip("()").split("::"):
                self.check_word(part, span)
        elif DASHED.fullmatch(name):
            self.check_word(name, span)

    def check_word(self, word, span):
        if word and not is_placeholder(word) and word not in (dashed() if "-" in word else words()):
            self.says(word, f"'{word}' is in no source", span)

    def check_case(self, case, span):
        if not is_placeholder(case) and f'"{case}"' not in sources():
            self.says(case, f"no case '{case}'", span)

    def check_path(self, path, span):
        path = re.sub(r"(:\d+|#.*)$", "", path.strip("'\"(),")).rstrip("/")
        for one in expand(path):
            if not self.is_there(one):
                self.says(one, f"no file or folder '{one}'", span)

    def is_there(self, path):
        parts = path.split("/")
        for i, part in enumerate(parts):
            if any(is_placeholder(word) for word in re.split(r"[._]", part)):
                return i == 0 or self.is_there("/".join(parts[:i]))
        room = "" if self.folder == "." else self.folder.split("/")[0] + "/"
        here = str(pathlib.PurePath(self.folder) / path)
        if path.startswith("."):
            return any(name.endswith(path) for name in files())  # an ending
        for known in (files(), folders()):
            if any(fnmatch.fnmatchcase(name, path) or fnmatch.fnmatchcase(name, here) or
                   (name.startswith((room, "test/" + room)) and fnmatch.fnmatchcase(name, "*/" + path))
                   for name in known):
                return True
        return not SOURCE.search(path) and path in sources()


class NamedThingsTest(unittest.TestCase):
    def test_what_pages_name_exists(self):
        self.assertGreater(len(pages()), 10)
        wrong = [line for file in pages() for line in Page(file, (ROOT / file).read_text()).check()]
        self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def test_what_does_not_exist_is_found(self):
        false = """
            `not/there/file.h` `engine_of_old.h` `compiler/passes/{fuse,unfuse}.cc` `not/there` `--not-there`
            `oneflow unplan show` `oneflow plan unshow` `oneflow plan check --memory`
            `oneflow run JOB.pbtxt --set train.not_there=1` `tools/test --not-there` `train.not_there`
            `checkpoint { not_there: 500 }` `NotThere` `Engine::NotThere` `not_there_op`
            `ONEFLOW_NOT_THERE` `not-there-pass`
            `oneflow bench --cases nowhere` `kernels_test --gtest_filter=NotThereTest.*` `-DONEFLOW_NOT_THERE=ON`"""
        for span in re.findall(r"`[^`]+`", false):
            self.assertEqual(len(Page("actor/README.md", span).check()), 1, span)
        for link in ("[a](not_there.md)", "[a](../README.md#not-there)"):
            self.assertEqual(len(Page("actor/README.md", link).check()), 1, link)
        self.assertEqual(len(Page("actor/README.md", "text\n\n    oneflow unrun JOB.pbtxt   does it\n").check()), 1)
        self.assertEqual(len(Page("README.md", "| `oneflow submit`, `unlog ID` | ... |\n").check()), 1)

    def test_every_exception_is_needed(self):
        for file in pages():
            Page(file, (ROOT / file).read_text()).check()
        self.assertEqual(Page.needed, set(KNOWN))


if __name__ == "__main__":
    ONEFLOW = sys.argv.pop(1)
    unittest.main()
