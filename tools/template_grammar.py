"""Makes up chat templates at random: mostly right, sometimes not."""
import random

VARIABLES = {
    "messages": [
        {"role": "system", "content": "Be <brief> & kind.\n"},
        {"role": "user", "content": "Hi, caf\u00e9 \U0001f600 'q' \"d\"", "n": 3},
        {"role": "assistant", "content": None, "tool_calls": [
            {"function": {"name": "f", "arguments": {"a": 1, "b": [True, None, 2.5]}}}]},
        {"role": "tool", "content": [{"type": "text", "text": "x y"}, {"type": "image"}]},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {
        "properties": {"b": {"type": "string"}, "a": {"type": "integer", "enum": [3, 1, 2]}}}}}],
    "d": {"b": 2, "a": "one", "C": [1, "x"], "d": {"e": 1.5}},
    "xs": [3, 1, 2, 1], "ws": ["pear", "Apple", "fig", ""], "s": "  The quick\tbrown\n\nFox-trot  ",
    "u": "stra\u00dfe \u00c9T\u00c9 \u4e16\u754c", "n": 7, "f": 2.5, "yes": True, "no": False, "nil": None,
    "empty": "", "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True,
}


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.depth = 0
        self.names = ["messages", "d", "xs", "ws", "s", "u", "n", "f", "yes", "no", "nil", "empty", "gone"]
        self.macros = []
        self.loops = 0

    def pick(self, *options):
        return self.r.choice(options)

    def text(self):
        return self.pick("'a'", "''", "' '", "'b c'", "'\\n'", "'%s'", "'{}'", "\"it's\"", "'\u00e9'", "','",
                         "'The'", "'x\\ty'", "'\\u00df'")

    def integer(self):
        return self.pick("0", "1", "2", "-1", "3", "10", "n", "xs|length", "xs[0]", "loop.index" if self.loops else "4")

    def number(self):
        return self.pick(self.integer(), "f", "2.0", "1e20", "0.1", "-7", "1.5e-7", f"({self.integer()} + f)",
                         f"{self.integer()} {self.pick('+', '-', '*', '//', '%', '/')} {self.integer()}",
                         f"{self.pick('xs|sum', 'xs|max', 'f|round', '7.45|round(1)', 's|length', 'f|int')}")

    def string(self):
        if self.depth > 4:
            return self.text()
        self.depth += 1
        base = self.pick("s", "u", "ws[1]", "messages[0].content", "messages[1]['content']", self.text(), "d.a")
        method = self.pick(
            ".strip()", ".upper()", ".lower()", ".title()", ".capitalize()", ".replace('o', '0')", ".lstrip()",
            ".rstrip('\\n ')", ".split()[0]", ".join(ws)", "|trim", "|upper", "|lower", "|title", "|capitalize",
            "|replace('T', 't')", "|indent(2)", "|indent(3, true, true)", "|string", "|reverse", "|truncate(9)",
            "[1:4]", "[::-1]", "[-3:]", "[:2]", ".swapcase()", ".center(12, '*')", ".zfill(9)", ".ljust(9)",
            "|tojson", "|e", ".removeprefix('  ')", ".expandtabs(4)", "|center(20)", "|urlencode",
            ".format(n, f, k=1)", " % 3", "|default('z')", "|safe", ".rjust(8)", "|format(n)", ".casefold()")
        result = self.pick(base + method, base + method, base, f"({base + method} ~ {self.any()})",
                           f"({base} + {self.text()})", f"{base} * 2",
                           f"({self.string()} if {self.condition()} else {self.string()})",
                           f"'{self.pick('{}', '{:>6}', '{!r}', '{0}{0}', '{:05.1f}', '{:,}', '{:+}', '{:x}', '{:^7}', '{:e}')}'"
                           f".format({self.any()})",
                           f"'{self.pick('%s', '%d', '%5.2f', '%r', '%-6s|', '%x', '%05d', '%g', '%%%s')}' % {self.any()}")
        self.depth -= 1
        return result

    def sequence(self):
        if self.depth > 4:
            return "xs"
        self.depth += 1
        base = self.pick("xs", "ws", "messages", "tools", "d", "[1, 'a', none, 2.0]", "(1, 2)", "range(4)",
                         "range(5, 0, -2)", "s.split()", "s.splitlines()", "d.items()", "d.keys()", "d.values()",
                         "'abc'", "d|dictsort", "d|items|list", "u.split(' ')", "{'k': 1, 2: 'w'}", "x", "gone")
        result = base + self.pick("", "", "|list", "|sort", "|reverse|list", "|unique|list", "[1:]", "[::-1]", "[:2]",
                                  "|map('string')|list", "|map('upper')|list", "|select|list", "|reject('none')|list",
                                  "|selectattr('role')|list", "|map(attribute='role')|list", "|batch(2)|list",
                                  "|map('length')|list", "|select('string')|list", " + [9]", " * 2", "|sort(reverse=true)",
                                  "|selectattr('role', 'equalto', 'user')|list", "|rejectattr('content', 'none')|list",
                                  "|map(attribute='function.name')|list", "|dictsort(by='value')", "|batch(3, '-')|list",
                                  "|map('default', 'w')|list", "|select('in', [1, 'a'])|list", "|map(attribute='n', default=0)|list")
        self.depth -= 1
        return result

    def condition(self):
        return self.pick(
            f"{self.name()} is {self.pick('', 'not ')}{self.pick('defined', 'none', 'string', 'mapping', 'iterable', 'number', 'sequence', 'boolean', 'true', 'false', 'undefined', 'integer', 'float', 'lower', 'upper', 'callable')}",
            f"{self.number()} {self.pick('<', '>', '==', '!=', '<=', '>=')} {self.number()}",
            f"{self.text()} {self.pick('in', 'not in')} {self.pick('s', 'd', 'ws', self.string())}",
            f"{self.integer()} in xs", f"not {self.name()}", f"{self.name()} and {self.name()}",
            f"{self.name()} or {self.name()}", f"{self.integer()} is {self.pick('odd', 'even', 'divisibleby 3', 'eq 3')}",
            f"s.{self.pick('startswith', 'endswith')}({self.text()})", f"{self.name()} == {self.name()}",
            f"1 < {self.integer()} <= 3", f"u.{self.pick('isalpha', 'isdigit', 'isupper', 'islower', 'isspace', 'istitle', 'isascii', 'isalnum')}()")

    def name(self):
        return self.r.choice(self.names)

    def any(self):
        if self.depth > 5:
            return self.name()
        self.depth += 1
        result = self.pick(
            self.string, self.number, self.sequence, self.condition, self.name, self.name,
            lambda: f"d.{self.pick('a', 'b', 'C', 'd', 'zz', 'd.e')}", lambda: f"d[{self.text()}]",
            lambda: f"d.get({self.text()}, {self.any()})", lambda: f"{self.sequence()}|{self.pick('first', 'last', 'length', 'join', 'sum', 'min', 'max')}",
            lambda: f"{self.sequence()}|join({self.text()})", lambda: f"{self.any()}|tojson",
            lambda: f"{self.any()}|tojson(indent={self.pick('2', 'none', '0')}{self.pick('', ', sort_keys=true', ', ensure_ascii=true')})",
            lambda: f"{self.string()}.{self.pick('find', 'count', 'rfind', 'partition', 'rsplit', 'split', 'rpartition')}({self.text()})",
            lambda: f"{self.any()}|{self.pick('int', 'float', 'string', 'abs', 'wordcount', 'list', 'length')}",
            lambda: f"({self.any()}, {self.any()})", lambda: f"[{self.any()}, {self.any()}]",
            lambda: f"{{{self.text()}: {self.any()}}}", lambda: f"{self.any()} if {self.condition()}",
            lambda: f"{self.r.choice(self.macros)}({self.any()}{self.pick('', ', b=1', ', 2')})" if self.macros else "n",
            lambda: f"{self.any()} {self.pick('+', '~', '*', '-', '%', '**', '//')} {self.pick('1', '2', 'f')}")()
        self.depth -= 1
        return result

    def tag(self, words):
        return self.pick("{%", "{%", "{%-", "{%+") + f" {words} " + self.pick("%}", "%}", "-%}")

    def body(self, level):
        return "".join(self.statement(level + 1) for _ in range(self.r.randint(1, 3)))

    def loop(self, level):
        name = self.pick("i", "m", "k")
        target = self.pick(name, name, name, "k, v")
        head = f"for {target} in {self.pick(self.sequence(), 'd.items()' if ',' in target else 'messages')}"
        head += self.pick("", "", f" if {self.condition()}")
        self.names.append(name)
        self.loops += 1
        inner = self.body(level)
        inner += self.pick("", "{{ loop." + self.pick("index", "index0", "first", "last", "length", "revindex", "previtem",
                                                      "nextitem", "depth", "cycle('a', 'b')", "changed(" + name + ")") + " }}")
        inner += self.pick("", "", self.tag("if " + self.condition()) + self.tag(self.pick("break", "continue")) + self.tag("endif"))
        self.loops -= 1
        self.names.pop()
        other = self.pick("", "", self.tag("else") + self.body(level))
        return self.tag(head) + inner + other + self.tag("endfor")

    def macro(self, level):
        name = self.pick("mac", "show", "put")
        self.names.append("a")
        inner = self.body(level)
        self.names.pop()
        self.macros.append(name)
        return self.tag(f"macro {name}(a, b={self.any()})") + inner + self.pick("", "{{ b }}", "{{ varargs }}", "{{ kwargs }}") + self.tag("endmacro")

    def statement(self, level):
        if level > 3:
            return "{{ " + self.any() + " }}"
        kind = self.r.randint(0, 15)
        if kind < 5:
            return self.pick("{{ ", "{{ ", "{{- ") + self.any() + self.pick(" }}", " }}", " -}}")
        if kind < 7:
            return self.pick("text", " \n", "  \n  ", "\n", "a\n\n b", "\t", "{ % }", "x {", "\u00e9\n")
        if kind == 7:
            return self.loop(level)
        if kind == 8:
            return self.tag("if " + self.condition()) + self.body(level) + self.pick("", self.tag("elif " + self.condition()) + self.body(level)) + \
                self.pick("", self.tag("else") + self.body(level)) + self.tag("endif")
        if kind == 9:
            name = self.pick("x", "y", "s", "n", "t")
            words = self.tag(f"set {name} = {self.any()}")
            self.names.append(name)
            return words
        if kind == 10:
            return self.tag(f"set ns = namespace(q={self.any()})") + self.body(level) + self.tag(f"set ns.q = {self.pick('ns.q', self.any())}") + "{{ ns.q }}"
        if kind == 11:
            return self.macro(level)
        if kind == 12:
            return self.tag(f"set z{self.pick('', ' | upper', ' | trim')}") + self.body(level) + self.tag("endset") + "{{ z }}"
        if kind == 13:
            return self.pick(self.tag("filter " + self.pick("upper", "trim", "indent(2)")) + self.body(level) + self.tag("endfilter"),
                             self.tag("with w = " + self.any()) + "{{ w }}" + self.body(level) + self.tag("endwith"),
                             self.tag("raw") + "{{ x }} {% y %}\n" + self.tag("endraw"))
        if kind == 14:
            return self.pick("{# note #}", "{#- note -#}", "{# a\nb #}\n", "  {# c #}\n")
        if level == 0:
            return self.tag("generation") + self.body(level) + self.tag("endgeneration")
        return "{{ " + self.string() + " }}"


def make_case(seed):
    maker = Maker(seed)
    return "".join(maker.statement(0) for _ in range(maker.r.randint(1, 5))), VARIABLES
