/* fuzz_template.c - any text as a chat template: refused, or rendered within its limits, twice the
 * same. Mutations insert pieces of the language, so that they get past the parser. */
#include "mutate.h"
#include "text/template.h"
#include "text/unicode/unicode.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const char *const pieces[] = {"{{ ",
                                     " }}",
                                     "{% ",
                                     " %}",
                                     "{%- ",
                                     " -%}",
                                     "{# ",
                                     " #}",
                                     "{{ messages }}",
                                     "{{ x }}",
                                     "{% for m in messages %}",
                                     "{% for k, v in d.items() %}",
                                     "{% for i in range(5) recursive %}",
                                     "{{ loop(xs) }}",
                                     "{% else %}",
                                     "{% endfor %}",
                                     "{% if x is defined %}",
                                     "{% elif d %}",
                                     "{% endif %}",
                                     "{% set x = 1 %}",
                                     "{% set ns = namespace(a=1) %}",
                                     "{% set ns.a = ns.a + 1 %}",
                                     "{% set x %}",
                                     "{% endset %}",
                                     "{% macro f(a, b=2) %}",
                                     "{% endmacro %}",
                                     "{{ f(1, b=x) }}",
                                     "{% call f(1) %}",
                                     "{% endcall %}",
                                     "{{ caller() }}",
                                     "{% filter upper %}",
                                     "{% endfilter %}",
                                     "{% generation %}",
                                     "{% endgeneration %}",
                                     "{% break %}",
                                     "{% continue %}",
                                     "{% with a = x %}",
                                     "{% endwith %}",
                                     "{% raw %}",
                                     "{% endraw %}",
                                     "|tojson",
                                     "|tojson(indent=2)",
                                     "|length",
                                     "|join(', ')",
                                     "|map('upper')",
                                     "|map(attribute='role')",
                                     "|select",
                                     "|selectattr('a', 'eq', 1)",
                                     "|list",
                                     "|sort",
                                     "|dictsort",
                                     "|unique",
                                     "|batch(2, 0)",
                                     "|replace('a', 'b')",
                                     "|indent(2)",
                                     "|default('z', true)",
                                     "|first",
                                     "|last",
                                     "|int",
                                     "|float",
                                     "|round(2)",
                                     "|string",
                                     "|title",
                                     "|reverse",
                                     "|sum",
                                     "|max",
                                     "|truncate(5)",
                                     "|format(1, 2)",
                                     "|safe",
                                     "|e",
                                     "|items",
                                     ".split('a')",
                                     ".strip()",
                                     ".replace('a', 'bb')",
                                     ".format(1, x=2)",
                                     ".items()",
                                     ".get('a', 1)",
                                     ".upper()",
                                     ".join(['a'])",
                                     ".startswith('a')",
                                     ".find('b')",
                                     ".splitlines()",
                                     ".title()",
                                     ".center(9)",
                                     "[1:]",
                                     "[::-1]",
                                     "[-1]",
                                     "['a']",
                                     "[0]",
                                     ".a",
                                     ".role",
                                     " ~ ",
                                     " + ",
                                     " - ",
                                     " * ",
                                     " / ",
                                     " // ",
                                     " % ",
                                     " ** ",
                                     " == ",
                                     " < ",
                                     " in ",
                                     " not in ",
                                     " and ",
                                     " or ",
                                     "not ",
                                     " is string",
                                     " is mapping",
                                     " is divisibleby 2",
                                     " if x else ",
                                     "(",
                                     ")",
                                     "[",
                                     "]",
                                     "{",
                                     "}",
                                     "{'a': 1}",
                                     "[1, 2.5, 'c', none]",
                                     "(1, 2)",
                                     "'a\\n\\u00e9'",
                                     "\"%s %d %5.2f\"",
                                     "'{:>5} {!r} {0}'",
                                     "1",
                                     "2.5",
                                     "true",
                                     "none",
                                     "messages",
                                     "d",
                                     "xs",
                                     "s",
                                     "x",
                                     "ns.a",
                                     "loop.index",
                                     "loop.last",
                                     "loop.length",
                                     "loop.cycle(1, 2)",
                                     "raise_exception('no')",
                                     "strftime_now('%Y')",
                                     "range(9)",
                                     "cycler(1, 2)",
                                     "joiner()",
                                     "dict(a=1)",
                                     "\xC3\xA9",
                                     "\xF0\x9F\x98\x80",
                                     "\n",
                                     "  ",
                                     ",",
                                     ":",
                                     "=",
                                     ".",
                                     "*xs",
                                     "**d"};

size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t most, unsigned seed);

/* Puts a piece somewhere, in place of some bytes or between them. */
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t most, unsigned seed)
{
    if (seed % 4 == 0) return LLVMFuzzerMutate(bytes, size, most);
    uint64_t state = seed;
    for (uint64_t i = 0; i <= mutate_next(&state) % 3; ++i) {
        const char *piece = pieces[mutate_next(&state) % (sizeof pieces / sizeof *pieces)];
        size_t length = strlen(piece), at = mutate_next(&state) % (size + 1);
        while (at > 0 && at < size && mutate_next(&state) % 4 && (bytes[at] | 0x20) >= 'a' &&
               (bytes[at] | 0x20) <= 'z')
            --at; /* rather between words */
        size_t gone = mutate_next(&state) % 3 ? 0 : mutate_next(&state) % (length + 4);
        if (gone > size - at) gone = size - at;
        if (size - gone + length > most) continue;
        memmove(bytes + at + length, bytes + at + gone, size - at - gone);
        memcpy(bytes + at, piece, length);
        size = size - gone + length;
    }
    return size;
}

static json_t *variables(void)
{
    static json_t *made;
    if (!made)
        made =
            json_loads("{\"messages\": [{\"role\": \"user\", \"content\": \"a <b> \\u00e9\\n\"},"
                       " {\"role\": \"assistant\", \"content\": null, \"n\": 3}], \"d\": {\"a\": 1,"
                       " \"b\": [2, 3.5], \"c\": {\"e\": \"f\"}}, \"xs\": [3, 1, 2, 1], \"s\":"
                       " \" Text with 'quotes' and \\ud83d\\ude00 \", \"x\": \"a,b,c\"}",
                       0, NULL);
    return made;
}

static void check(const hil_rendering *got, const hil_rendering *again)
{
    size_t bad, end = 0;
    if (got->text.size != again->text.size ||
        memcmp(got->text.data, again->text.data, got->text.size) != 0)
        abort();
    if (hil_utf8_check(got->text.data, got->text.size, &bad) != got->text.size) abort();
    for (size_t i = 0; i < got->span_count; ++i) {
        if (got->spans[i].begin < end || got->spans[i].end < got->spans[i].begin) abort();
        end = got->spans[i].end;
    }
    if (end > got->text.size) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const hil_jinja_limits limits = {
        .steps = 5000, .bytes = 1 << 18, .depth = 300, .now = 1700000000};
    hil_jinja *parsed;
    hil_rendering got = {0}, again = {0};
    if (hil_jinja_parse(&parsed, (const char *)bytes, size, "input") != HIL_OK) return 0;
    hil_status status = hil_jinja_render(parsed, variables(), &limits, &got);
    if (status == HIL_OK) {
        if (hil_jinja_render(parsed, variables(), &limits, &again) != HIL_OK) abort();
        check(&got, &again);
    }
    hil_rendering_free(&got);
    hil_rendering_free(&again);
    hil_jinja_destroy(parsed);
    return 0;
}
