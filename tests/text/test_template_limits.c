/* test_template_limits.c - templates that run forever, grow without bound or nest too deep end with
   an error that says so. Errors name the line; a failed allocation is an error too. */
#include "base/json.h"
#include "check.h"
#include "text/template.h"

static hil_status render(const char *source, const hil_jinja_limits *limits, hil_rendering *out)
{
    hil_jinja *parsed;
    json_t *variables;
    static const char given[] = "{\"n\": 3, \"m\": {\"a\": [1, 2]}}";
    CHECK_OK(hil_json_parse(given, sizeof given - 1, "variables", &variables));
    hil_status status = hil_jinja_parse(&parsed, source, strlen(source), "chat.jinja");
    if (status == HIL_OK) status = hil_jinja_render(parsed, variables, limits, out);
    hil_jinja_destroy(parsed);
    json_decref(variables);
    return status;
}

static void check_fails_with(const char *source, const char *words)
{
    hil_rendering out = {0};
    hil_jinja_limits limits = hil_jinja_default_limits();
    limits.steps = 1000000;
    limits.bytes = 16 << 20;
    CHECK_FAILS(render(source, &limits, &out), HIL_ERR_INPUT, words);
    hil_rendering_free(&out);
}

static void test_hostile(void)
{
    check_fails_with(
        "{% for a in range(99999) %}{{ [[[[[[[1]]]]]]]|length }}{% for b in range(99999)"
        " %}{% endfor %}{% endfor %}",
        "more than");
    check_fails_with("{% for a in range(99999) %}{{ 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 }}{% endfor %}",
                     "more than 1000000 steps");
    check_fails_with("{% macro f() %}{{ f() }}{% endmacro %}\n{{ f() }}",
                     "more than 1500 calls and expressions inside each other");
    check_fails_with("{% set ns = namespace(s='x') %}{% for i in range(99) %}"
                     "{% set ns.s = ns.s + ns.s %}{% endfor %}",
                     "more than 16.0 MiB of memory");
    check_fails_with("{% set ns = namespace(s=[1]) %}{% for i in range(40) %}"
                     "{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
                     "more than");
    check_fails_with("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}", "inside each other");
    check_fails_with("{{ 'x' * 9000000000 }}", "more than");
    check_fails_with("{{ [0] * 9000000000 }}", "more than");
    check_fails_with("{{ '%999999999d' % 1 }}", "a width of more than");
    check_fails_with("{{ 2 ** 64 }}", "more than 64 bits");
    check_fails_with("{{ range(100001) }}", "Range too big");
}

static void test_depth_of_parser(void)
{
    enum { DEEP = 5000 };
    static char source[2 * DEEP + 16];
    static const char *const openings[] = {"(", "[", "-", "not ", "a."};
    for (size_t i = 0; i < sizeof openings / sizeof *openings; ++i) {
        size_t size = strlen(openings[i]), at = 2;
        memcpy(source, "{{", 2);
        for (; at + size < DEEP; at += size) memcpy(source + at, openings[i], size);
        memcpy(source + at, "1}}", 4);
        hil_rendering out = {0};
        CHECK(render(source, NULL, &out) == HIL_ERR_INPUT);
        hil_rendering_free(&out);
    }
}

static void test_lines(void)
{
    check_fails_with("a\nb\n{{ c.d }}", "chat.jinja, line 3: 'c' is undefined");
    check_fails_with("{% if n %}\n\n{{ m.x.y }}{% endif %}",
                     "chat.jinja, line 3: 'dict object' has no attribute 'x'");
    check_fails_with("\n{% bogus %}", "chat.jinja, line 2: Encountered unknown tag 'bogus'.");
    check_fails_with("\n\n{{ raise_exception('Roles must alternate') }}",
                     "chat.jinja, line 3: Roles must alternate");
    check_fails_with("{{ m.a.append(3) }}",
                     "access to attribute 'append' of 'list' object is unsafe.");
    check_fails_with("{% include 'x' %}", "chat templates do not load or extend other templates");
    check_fails_with("{% if n %}", "Unexpected end of template");
    check_fails_with("{{ '\\ud800' }}", "half of a surrogate pair");
    check_fails_with("\xff", "not valid UTF-8");
    check_fails_with("{{ n|from_json }}", "No filter named 'from_json'.");
}

/* A {% generation %} block whose output does not go directly to the text has no span. */
static void test_lost_spans(void)
{
    hil_rendering out = {0};
    CHECK_OK(
        render("{% set x %}{% generation %}a{% endgeneration %}{% endset %}b{{ x }}", NULL, &out));
    CHECK(out.spans_lost);
    CHECK_INT(out.span_count, 0);
    hil_rendering_free(&out);
    CHECK_OK(render("{% generation %}a{% generation %}b{% endgeneration %}{% endgeneration %}",
                    NULL, &out));
    CHECK(!out.spans_lost);
    CHECK_INT(out.span_count, 1);
    CHECK_INT(out.spans[0].begin, 0);
    CHECK_INT(out.spans[0].end, 2);
    hil_rendering_free(&out);
}

static void test_allocations(void)
{
    static const char source[] =
        "{% macro f(a) %}{{ a|tojson }}{% endmacro %}{% for i in range(n) %}{% generation %}"
        "{{ f(m) ~ 'b' }}{% endgeneration %}{% endfor %}";
    for (long n = 1;; ++n) {
        hil_rendering out = {0};
        hil_alloc_fail_at(n);
        hil_status status = render(source, NULL, &out);
        hil_alloc_fail_at(0);
        hil_rendering_free(&out);
        if (status == HIL_OK) {
            CHECK(n > 4);
            break;
        }
        CHECK_INT(status, HIL_ERR_MEMORY);
    }
}

int main(void)
{
    test_hostile();
    test_depth_of_parser();
    test_lines();
    test_lost_spans();
    test_allocations();
    return 0;
}
