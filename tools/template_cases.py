"""Templates and variables for tests/golden/templates.jsonl: at least one for each thing they can do."""
from template_grammar import VARIABLES

TEMPLATES = [
    # white space
    "a\n  {% if yes %}\n  b\n  {% endif %}\nc\n", "a\n  {%- if yes -%}\n  b\n  {%- endif +%}\nc\n\n",
    "  {%+ if yes %}x{% endif %}\n  {{- 'y' -}}  \n z", "{# one #}\n  {#- two -#}\n x {# three #} y\n",
    "{% raw %}{{ a }}\n{% endraw %}\n {%- raw -%} {% b %} {%- endraw -%} c", "a\r\nb\rc{% if yes %}\r\nd{% endif %}\r\n",
    "{{ '\\n' }}{{ 'a\\tb\\x41\\u00e9\\U0001f600\\101\\q\\\u00e9' }}{{ \"it's\" 'joined' }}",
    # values
    "{{ none }} {{ true }} {{ 1.0 }} {{ 1e16 }} {{ 1e-5 }} {{ 123456789.125 }} {{ [1, 'a', none, 2.5] }}",
    "{{ d }} {{ (1,) }} {{ () }} {{ {1: 'a', none: true} }} {{ 'it\\'s' }} {{ ['it\\'s', '\"', '\\n\\u200b\u00e9'] }}",
    "{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}",
    "{{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 < n < 9 }} {{ 'a' ~ 1 ~ none }}",
    "{{ xs[1:] }} {{ xs[::-1] }} {{ s[2:5] }} {{ u[-2:] }} {{ u[::-2] }} {{ (1, 2, 3)[:-1] }} {{ range(9)[::3] }}",
    "{{ 1 in xs }} {{ 'q' in s }} {{ 'a' in d }} {{ 'x' not in d }} {{ gone in xs }} {{ 1 in gone }}",
    "{{ gone }}|{{ gone is defined }}|{{ d.gone }}|{{ gone|default('x') }}|{{ ''|d('y', true) }}|{{ not gone }}",
    "{{ 'a' * 3 }} {{ [0] * 2 }} {{ xs + [9] }} {{ (1,) + (2,) }} {{ -f }} {{ +n }} {{ 'x' if no }}",
    # attributes and methods
    "{{ messages[0].role }} {{ messages[0]['role'] }} {{ messages[-1].content[0].text }} {{ d.items }}".replace(" {{ d.items }}", ""),
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{{ d.keys()|list }}{{ d.values() }}{{ d.get('z', 4) }}",
    "{{ s.strip() }}|{{ s.split() }}|{{ 'a,b,,c'.split(',', 1) }}|{{ 'a,b,c'.rsplit(',', 1) }}|{{ s.lstrip() }}|{{ s.splitlines() }}",
    "{{ 'xxabxx'.strip('x') }} {{ u.upper() }} {{ u.lower() }} {{ u.title() }} {{ u.capitalize() }} {{ u.swapcase() }} {{ u.casefold() }}",
    "{{ 'banana'.replace('an', 'N', 1) }} {{ 'abc'.replace('', '-') }} {{ 'banana'.count('an') }} {{ 'banana'.find('n', 3) }} {{ 'b'.rfind('z') }}",
    "{{ 'abc'.startswith(('x', 'a')) }} {{ 'abc'.endswith('c', 0, 2) }} {{ '-'.join(ws) }} {{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }}",
    "{{ '{} {:>5} {!r} {x[a]} {0:05.1f}'.replace('{0:05.1f}', '').format(1, 'b', 'c', x=d) }} {{ '{:,} {:+d} {:x} {:.3e} {:%}'.format(1234567, 5, 255, f, 0.25) }}",
    "{{ '%s %r %5.1f %-4d| %03d %x %%' % ('a', 'b', f, 3, 7, 255) }} {{ '%(k)s' % {'k': 1} }} {{ '%s'|format(xs) }}",
    "{{ 'abc'.center(8, '*') }} {{ '7'.zfill(3) }} {{ '-7'.zfill(4) }} {{ 'a'.ljust(3) }}| {{ 'abc'.removeprefix('a').removesuffix('c') }}",
    "{{ 'Ab'.isalpha() }} {{ '12'.isdigit() }} {{ 'AB'.isupper() }} {{ 'ab'.islower() }} {{ ' '.isspace() }} {{ 'A B'.istitle() }}",
    # filters
    "{{ xs|sort }} {{ ws|sort }} {{ ws|sort(case_sensitive=true, reverse=true) }} {{ xs|unique|list }} {{ xs|reverse|list }} {{ xs|sum }} {{ xs|max }} {{ ws|min }}",
    "{{ d|tojson }}\n{{ messages|tojson(indent=2) }}\n{{ d|tojson(sort_keys=true, separators=(',', ':')) }} {{ u|tojson(ensure_ascii=true) }} {{ '<&>\\x01'|tojson }}",
    "{{ messages|map(attribute='role')|join(', ') }} {{ ws|map('upper')|list }} {{ messages|selectattr('role', 'equalto', 'user')|list|length }}",
    "{{ xs|select('odd')|list }} {{ xs|reject('odd')|list }} {{ messages|rejectattr('content')|map(attribute='role')|list }} {{ messages|map(attribute='n', default=0)|list }}",
    "{{ d|dictsort }} {{ d.C|first }} {{ xs|last }} {{ ''|first }} {{ s|trim }} {{ s|title }} {{ 'a b'|capitalize }} {{ s|wordcount }} {{ s|length }}",
    "{{ 'a\\nb\\n\\nc'|indent }}|{{ 'a\\nb'|indent(2, true) }}|{{ 'a\\n\\nb'|indent('> ', blank=true) }}|{{ 'foo bar baz qux'|truncate(9) }}|{{ 'x'|center(5) }}",
    "{{ '42'|int }} {{ '4.7'|int }} {{ 'x'|int(9) }} {{ 'ff'|int(base=16) }} {{ '1.5'|float }} {{ 'x'|float }} {{ 2.675|round(2) }} {{ 2.5|round }} {{ 7|round }} {{ 2.1|round(0, 'ceil') }} {{ -3|abs }}",
    "{{ '<a>'|e }} {{ ('<b>'|safe) + '<c>' }} {{ '<d>'|safe }} {{ xs|batch(3, 0)|list }} {{ d|items|list }} {{ 'a b/c?'|urlencode }} {{ 12|string + '3' }} {{ {'a': 1}|attr('a') }}",
    # tests
    "{{ 1 is odd }} {{ 4 is divisibleby 2 }} {{ s is string }} {{ d is mapping }} {{ xs is iterable }} {{ gone is sequence }} {{ yes is true }} {{ nil is none }} {{ f is float }} {{ n is number }} {{ 3 is in xs }} {{ 'x' is eq 'x' }}",
    # statements
    "{% for x in xs %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.revindex }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }};{% else %}none{% endfor %}",
    "{% for x in xs if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% endfor %}{% for x in [] %}{% else %}empty{% endfor %}",
    "{% for x in [1, [2, [3]]] recursive %}{% if x is number %}{{ x }}@{{ loop.depth }}{% else %}({{ loop(x) }}){% endif %}{% endfor %}",
    "{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in [1] %}{% break %}{% else %}else{% endfor %}{% for k, (a, b) in [(1, (2, 3))] %}{{ k + a + b }}{% endfor %}",
    "{% set x = 1 %}{% for i in xs %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}{% set ns = namespace(x=0) %}{% for i in xs %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}",
    "{% for i in [1, 2] %}[{{ n }}]{% endfor %}{% set n = 9 %}{{ n }}", "{% if yes %}{% set n = 8 %}{% endif %}{% macro m() %}{{ n }}{% endmacro %}{{ m() }}",
    "{% macro m(a, b='B', c=a) %}<{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}>{% endmacro %}{{ m(1) }}{{ m(1, 2, 3, 4, z=5) }}{{ m(b=2, a=1) }}{{ m(*[1, 2], **{'c': 3}) }}",
    "{% macro w(t) %}<{{ t }}>{{ caller(2) }}</{{ t }}>{% endmacro %}{% call(k) w('b') %}{{ k }}{{ n }}{% endcall %}",
    "{% set t | upper %}abc {{ n }}{% endset %}{{ t }}{% filter trim | title %}  a b  {% endfilter %}{% with a = 1, b = n %}{{ a + b }}{% endwith %}{% set a, b = 1, 2 %}{{ b }}{{ a }}",
    "{% for m in messages %}{% if m.role == 'user' %}U{% elif m.role == 'tool' %}T{% else %}{{ m.role[0]|upper }}{% endif %}{% endfor %}",
    "{% for m in messages %}{{ m.role }}: {% if m.role == 'user' %}{% generation %}{{ m.content }}\u00e9{% endgeneration %}{% endif %}\n{% endfor %}{% generation %}z{% endgeneration %}",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set j = joiner('; ') %}{{ j() }}{{ j() }}{{ dict(a=1, **{'b': 2}) }}{{ strftime_now('%Y-%m-%d %H:%M') }}",
    # failures
    "{{ raise_exception('System role not supported') }}", "{{ gone.x }}", "{{ d.gone.x }}", "{{ gone + 1 }}", "{{ 'a' + 1 }}", "{{ 1 / 0 }}", "{{ xs.append(1) }}",
    "{% if yes %}\n{{ s|nothing }}{% endif %}", "{{ s|nothing }}", "{% foo %}", "{% if yes %}", "{{ 'a' }", "{% for x in 3 %}{% endfor %}", "{{ [1, 'a']|sort }}", "{{ n() }}",
    "{% set d.x = 1 %}", "{{ gone|tojson }}", "{% break %}", "{{ (1 }}", "{{ range(200000) }}", "{{ ''.__class__.x }}", "{% set a, b = 1 %}", "{{ 'x' is nothing }}", "{{ loop.index }}",
]
CASES = [(t, VARIABLES) for t in TEMPLATES]
