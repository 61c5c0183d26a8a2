/* A manifest is refused unless its files are files of the folder and their pieces cover them. */
#include "check.h"
#include "format/checkpoint_manifest.h"

#define STEP "\"step\": 3, "
#define STATE "\"state\": {}, "
#define MASTER "\"master.safetensors\": {\"size\": 12, \"pieces\": " PIECES "}"
#define PIECES "[[8, \"0123456789abcdef\"], [4, \"fedcba9876543210\"]]"
#define FILES "\"files\": {" MASTER "}, "
#define FILES_AND(more) "\"files\": {" MASTER ", " more "}, "

static hil_status parse(hil_manifest *m, const char *body)
{
    hil_text text = {0};
    CHECK_OK(hil_text_add(&text, body, strlen(body)));
    CHECK_OK(hil_manifest_seal(&text));
    hil_status status = hil_manifest_parse(m, text.data, text.size, "it");
    hil_text_free(&text);
    return status;
}

static const struct {
    const char *body, *words;
} refused[] = {
    {"{\"version\": 1, \"files\": {\"master.safetensors\": \"0123456789abcdef\"}, " STATE,
     "it has version 1, but this hilbert reads version 2"},
    {"{\"version\": 3, " STEP FILES STATE, "it has version 3"},
    {"{" STEP FILES STATE, "it has version 0"},
    {"{\"version\": 2, " FILES STATE, "names no step"},
    {"{\"version\": 2, \"step\": -1, " FILES STATE, "names no step"},
    {"{\"version\": 2, \"step\": \"3\", " FILES STATE, "step"},
    {"{\"version\": 2, " STEP FILES, "no state"},
    {"{\"version\": 2, " STEP STATE, "master.safetensors is not listed"},
    {"{\"version\": 2, " STEP STATE "\"files\": [], ", "master.safetensors is not listed"},
    {"{\"version\": 2, " STEP STATE FILES_AND("\"../x\": {\"size\": 0, \"pieces\": []}"),
     "\"../x\" is not a file of this folder"},
    {"{\"version\": 2, " STEP STATE FILES_AND("\"manifest.json\": {\"size\": 0, \"pieces\": []}"),
     "\"manifest.json\" is not a file of this folder"},
    {"{\"version\": 2, " STEP STATE FILES_AND(MASTER), "duplicate"},
    {"{\"version\": 2, " STEP STATE FILES_AND("\"x\": {\"size\": 11, \"pieces\": " PIECES "}"),
     "the pieces of \"x\" do not make up the file"},
    {"{\"version\": 2, " STEP STATE FILES_AND("\"x\": {\"size\": 13, \"pieces\": " PIECES "}"),
     "the pieces of \"x\""},
    {"{\"version\": 2, " STEP STATE FILES_AND("\"x\": {\"size\": -1, \"pieces\": []}"),
     "the pieces of \"x\""},
    {"{\"version\": 2, " STEP STATE FILES_AND("\"x\": {\"size\": 1}"), "the pieces of \"x\""},
    {"{\"version\": 2, " STEP STATE FILES_AND("\"x\": {\"pieces\": []}"), "the pieces of \"x\""},
    {"{\"version\": 2, " STEP STATE FILES_AND("\"x\": 3"), "the pieces of \"x\""},
    {"{\"version\": 2, " STEP STATE FILES_AND(
         "\"x\": {\"size\": 4, \"pieces\": [[4, \"0123456789abcdeF\"]]}"),
     "the pieces of \"x\""},
    {"{\"version\": 2, " STEP STATE FILES_AND(
         "\"x\": {\"size\": 4, \"pieces\": [[4, \"123456789abcdef\"]]}"),
     "the pieces of \"x\""},
    {"{\"version\": 2, " STEP STATE FILES_AND("\"x\": {\"size\": 0, \"pieces\": [[0, "
                                              "\"0123456789abcdef\"]]}"),
     "the pieces of \"x\""},
    {"{\"version\": 2, " STEP STATE FILES_AND(
         "\"x\": {\"size\": 9223372036854775807, \"pieces\": [[9223372036854775807, "
         "\"0123456789abcdef\"]]}, \"y\": {\"size\": 9223372036854775807, \"pieces\": "
         "[[9223372036854775807, \"0123456789abcdef\"]]}"),
     "the pieces of \"y\""},
    {"{\"version\": 2, ", ""},
    {"", ""},
};

/* A folder whose name hil_step_path would not write is no checkpoint: never counted or removed. */
static void check_names(void)
{
    CHECK_INT(hil_step_parse("step-0"), 0);
    CHECK_INT(hil_step_parse("step-9223372036854775807"), INT64_MAX);
    static const char *const others[] = {"step-",
                                         "step-007",
                                         "step-00",
                                         "step-+7",
                                         "step-7a",
                                         "step--1",
                                         "step-9223372036854775808"};
    for (size_t i = 0; i < sizeof others / sizeof *others; ++i)
        CHECK_INT(hil_step_parse(others[i]), -1);
}

int main(void)
{
    check_names();
    hil_manifest m;
    CHECK_OK(parse(&m, "{\"version\": 2, " STEP FILES_AND("\"e\": {\"size\": 0, \"pieces\": []}")
                           STATE));
    CHECK_INT(m.step, 3);
    CHECK_INT(m.files, 2);
    CHECK_INT(m.pieces, 2);
    CHECK_INT(m.bytes, 12);
    CHECK_INT(m.piece[1].offset, 8);
    CHECK(m.piece[1].hash == 0xfedcba9876543210u);
    CHECK_INT(hil_manifest_find(&m, "e")->pieces, 0);
    CHECK(hil_manifest_find(&m, "f") == NULL);
    hil_manifest_close(&m);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i)
        CHECK_FAILS(parse(&m, refused[i].body), HIL_ERR_INPUT, refused[i].words);
    CHECK_FAILS(hil_manifest_parse(&m, "{}", 2, "it"), HIL_ERR_INPUT, "it is damaged");
    return 0;
}
