/* test_template_golden.c - templates against the results of transformers
   (tools/golden_templates.py): the same text and spans, or an error in both. An argument names
   another file than the golden one. */
#include "base/json.h"
#include "check.h"
#include "io/file.h"
#include "text/template.h"

static int failures;

static void complain(size_t line, const json_t *entry, const char *what, const char *got)
{
    const char *text = json_string_value(json_object_get(entry, "text"));
    const char *error = json_string_value(json_object_get(entry, "error"));
    if (++failures > 20) return;
    fprintf(stderr, "line %zu: %s\n--- template\n%s\n--- expected\n%s\n--- got\n%s\n", line, what,
            json_string_value(json_object_get(entry, "template")), text ? text : error, got);
}

static bool same_spans(const json_t *expected, const hil_rendering *got)
{
    if (got->spans_lost) return true; /* the reference's spans are wrong then */
    if (json_array_size(expected) != got->span_count) return false;
    for (size_t i = 0; i < got->span_count; ++i) {
        const json_t *span = json_array_get(expected, i);
        if ((size_t)json_integer_value(json_array_get(span, 0)) != got->spans[i].begin ||
            (size_t)json_integer_value(json_array_get(span, 1)) != got->spans[i].end)
            return false;
    }
    return true;
}

static void check_case(size_t line, const json_t *entry, const json_t *variables)
{
    hil_jinja *parsed = NULL;
    hil_rendering got = {0};
    hil_jinja_limits limits = hil_jinja_default_limits();
    limits.now = 1700000000;
    const json_t *source = json_object_get(entry, "template");
    hil_status status =
        hil_jinja_parse(&parsed, json_string_value(source), json_string_length(source), "template");
    if (status == HIL_OK) status = hil_jinja_render(parsed, variables, &limits, &got);
    const json_t *text = json_object_get(entry, "text");
    if (!text) {
        if (status == HIL_OK) complain(line, entry, "no error", got.text.data);
    } else if (status != HIL_OK) {
        complain(line, entry, "an error", hil_status_message());
    } else if (got.text.size != json_string_length(text) ||
               memcmp(got.text.data, json_string_value(text), got.text.size) != 0) {
        complain(line, entry, "another text", got.text.data);
    } else if (!same_spans(json_object_get(entry, "spans"), &got)) {
        complain(line, entry, "other spans", "");
    }
    hil_rendering_free(&got);
    hil_jinja_destroy(parsed);
}

int main(int count, char **args)
{
    const char *path = count > 1 ? args[1] : HIL_TESTS "/golden/templates.jsonl";
    hil_bytes bytes;
    size_t line = 0;
    json_t *variables = NULL; /* for all lines after them */
    setenv("TZ", "UTC0", 1);
    CHECK_OK(hil_bytes_read(&bytes, path));
    for (char *at = bytes.data; *at;) {
        char *end = strchr(at, '\n');
        json_t *entry;
        CHECK(end);
        CHECK_OK(hil_json_parse(at, (size_t)(end - at), path, &entry));
        json_t *given = json_object_get(entry, "variables");
        if (given) {
            json_decref(variables);
            variables = json_incref(given);
        } else {
            check_case(++line, entry, variables);
        }
        json_decref(entry);
        at = end + 1;
    }
    CHECK(line > 0);
    printf("%zu cases, %d differ\n", line, failures);
    json_decref(variables);
    hil_bytes_free(&bytes);
    return failures != 0;
}
