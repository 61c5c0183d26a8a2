/* test_template_real.c - the chat templates of real models against the results of transformers, if
   the data is present. */
#include "base/json.h"
#include "check.h"
#include "io/file.h"
#include "text/template.h"

static int failures;

static void read_json(const char *folder, const char *name, json_t **out)
{
    char path[HIL_PATH_MAX];
    hil_bytes bytes;
    CHECK_OK(hil_path_join(path, folder, name));
    CHECK_OK(hil_bytes_read(&bytes, path));
    CHECK_OK(hil_json_parse(bytes.data, bytes.size, path, out));
    hil_bytes_free(&bytes);
}

static const char *text_of(const json_t *entry, const char *key)
{
    const char *text = json_string_value(json_object_get(entry, key));
    return text ? text : "";
}

/* Expects "error: Type: message"; our error contains the message. */
static void check_failure(const json_t *entry, hil_status status)
{
    const char *expected = strstr(text_of(entry, "status"), ": ");
    expected = expected ? strstr(expected + 2, ": ") : NULL;
    if (status == HIL_ERR_INPUT && expected && strstr(hil_status_message(), expected + 2)) return;
    fprintf(stderr, "%s, %s: expected \"%s\", got \"%s\"\n", text_of(entry, "template"),
            text_of(entry, "context"), expected ? expected : "",
            status == HIL_OK ? "" : hil_status_message());
    ++failures;
}

static void check_rendering(const json_t *entry, const char *folder, hil_status status,
                            const hil_rendering *got)
{
    char path[HIL_PATH_MAX], name[256];
    hil_bytes expected;
    snprintf(name, sizeof name, "golden/%s", text_of(entry, "file"));
    CHECK_OK(hil_path_join(path, folder, name));
    CHECK_OK(hil_bytes_read(&expected, path));
    bool same = status == HIL_OK && got->text.size == expected.size &&
                memcmp(got->text.data, expected.data, expected.size) == 0;
    bool dated = json_is_true(json_object_get(entry, "time_dependent"));
    if (!same && (status != HIL_OK || !dated)) {
        fprintf(stderr, "%s: %s\n", name, status == HIL_OK ? "another text" : hil_status_message());
        ++failures;
    }
    hil_bytes_free(&expected);
}

static void check_entry(const json_t *entry, const char *folder)
{
    char path[HIL_PATH_MAX], name[256];
    hil_bytes source;
    json_t *variables;
    hil_jinja *parsed = NULL;
    hil_rendering got = {0};
    snprintf(name, sizeof name, "templates/%s.jinja", text_of(entry, "template"));
    CHECK_OK(hil_path_join(path, folder, name));
    CHECK_OK(hil_bytes_read(&source, path));
    snprintf(name, sizeof name, "contexts/%s.json", text_of(entry, "context"));
    read_json(folder, name, &variables);
    CHECK(json_object_set(variables, "add_generation_prompt",
                          json_object_get(entry, "add_generation_prompt")) == 0);
    hil_status status = hil_jinja_parse(&parsed, source.data, source.size, "chat template");
    if (status == HIL_OK) status = hil_jinja_render(parsed, variables, NULL, &got);
    if (strcmp(text_of(entry, "status"), "ok") == 0)
        check_rendering(entry, folder, status, &got);
    else
        check_failure(entry, status);
    hil_rendering_free(&got);
    hil_jinja_destroy(parsed);
    json_decref(variables);
    hil_bytes_free(&source);
}

int main(void)
{
    const char *folder = HIL_TESTS "/../../shared/data/chat-templates";
    char path[HIL_PATH_MAX];
    CHECK_OK(hil_path_join(path, folder, "golden/manifest.json"));
    if (!hil_file_exists(path)) return CHECK_SKIP;
    json_t *manifest;
    read_json(folder, "golden/manifest.json", &manifest);
    CHECK(json_array_size(manifest) > 0);
    for (size_t i = 0; i < json_array_size(manifest); ++i)
        check_entry(json_array_get(manifest, i), folder);
    printf("%zu renderings, %d differ\n", json_array_size(manifest), failures);
    json_decref(manifest);
    return failures != 0;
}
