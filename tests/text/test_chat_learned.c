/* test_chat_learned.c - which tokens of a conversation are learned: those that transformers masks,
 * by {% generation %} and by prefixes alike; and what is refused. */
#include "base/json.h"
#include "check.h"
#include "io/file.h"
#include "text/chat_learned.h"

#include <unistd.h>

static char folder[] = "/tmp/hilbert-learned-XXXXXX";

static void clean(void)
{
    (void)!hil_file_remove_tree(folder);
}

static hil_chat_template *open_template(const char *text, size_t size)
{
    hil_chat_template *chat;
    char path[HIL_PATH_MAX];
    CHECK_OK(hil_path_join(path, folder, "chat_template.jinja"));
    CHECK_OK(hil_file_write(path, text, size));
    CHECK_OK(hil_chat_template_open(&chat, folder));
    return chat;
}

/* The template without {% generation %} and {% endgeneration %}. */
static hil_chat_template *open_unmarked(const char *text)
{
    hil_text plain = {0};
    while (*text) {
        size_t skip = strncmp(text, "{% generation %}", 16) == 0      ? 16
                      : strncmp(text, "{% endgeneration %}", 19) == 0 ? 19
                                                                      : 0;
        if (!skip) CHECK_OK(hil_text_add(&plain, text, 1));
        text += skip ? skip : 1;
    }
    hil_chat_template *chat = open_template(plain.data, plain.size);
    hil_text_free(&plain);
    return chat;
}

/* The learned tokens as "[[1, 3], [7, 9]]" of `tokens`, with neighbours joined. */
static void check_case(const hil_chat_template *chat, const hil_tokenizer *tokenizer,
                       const json_t *messages, const json_t *expected, const char *what)
{
    hil_encoder *encoder;
    hil_rendering rendering = {0};
    hil_ids ids = {0};
    hil_token_span span[16];
    json_t *variables = json_pack("{s:O}", "messages", messages), *got = json_array();
    CHECK_OK(hil_encoder_create(&encoder, tokenizer));
    CHECK_OK(hil_chat_template_learned(chat, variables, HIL_ANSWERS_ASSISTANT, NULL, &rendering));
    CHECK(rendering.span_count <= 16);
    CHECK_OK(hil_rendering_encode(&rendering, tokenizer, encoder, &ids, span));
    for (size_t i = 0; i < rendering.span_count; ++i) {
        json_t *last = json_array_get(got, json_array_size(got) - 1);
        if (span[i].begin >= span[i].end) continue;
        if (last && json_integer_value(json_array_get(last, 1)) >= (json_int_t)span[i].begin)
            CHECK(json_array_set_new(last, 1, json_integer((json_int_t)span[i].end)) == 0);
        else
            CHECK(json_array_append_new(got, json_pack("[I, I]", (json_int_t)span[i].begin,
                                                       (json_int_t)span[i].end)) == 0);
    }
    CHECK_INT(ids.size, json_integer_value(json_array_get(expected, 3)));
    if (!json_equal(got, json_array_get(expected, 4))) {
        char *a = json_dumps(got, 0), *b = json_dumps(expected, 0);
        printf("%s: %s, expected %s\n%s\n", what, a, b, rendering.text.data);
        free(a);
        free(b);
        check_die(what, __LINE__, "other tokens than transformers");
    }
    hil_encoder_destroy(encoder);
    hil_rendering_free(&rendering);
    hil_ids_free(&ids);
    json_decref(got);
    json_decref(variables);
}

static void check_golden(void)
{
    hil_bytes bytes;
    json_t *golden, *one;
    size_t i;
    hil_tokenizer *tokenizer = NULL;
    const char *before = "";
    CHECK_OK(hil_bytes_read(&bytes, HIL_TESTS "/golden/masks.json"));
    CHECK_OK(hil_json_parse(bytes.data, bytes.size, "masks.json", &golden));
    hil_bytes_free(&bytes);
    json_array_foreach(json_object_get(golden, "cases"), i, one)
    {
        char path[HIL_PATH_MAX];
        const char *name = json_string_value(json_array_get(one, 0));
        size_t t = (size_t)json_integer_value(json_array_get(one, 1));
        size_t c = (size_t)json_integer_value(json_array_get(one, 2));
        const json_t *text = json_array_get(json_object_get(golden, "templates"), t);
        const json_t *messages = json_array_get(json_object_get(golden, "conversations"), c);
        snprintf(path, sizeof path, HIL_TESTS "/golden/tokenizers/%s/tokenizer.json", name);
        if (strcmp(name, before) != 0) {
            hil_tokenizer_close(tokenizer);
            CHECK_OK(hil_tokenizer_open(&tokenizer, path));
            before = name;
        }
        hil_chat_template *chat = open_template(json_string_value(text), json_string_length(text));
        check_case(chat, tokenizer, messages, one, "generation");
        hil_chat_template_close(chat);
        chat = open_unmarked(json_string_value(text));
        check_case(chat, tokenizer, messages, one, "prefixes");
        hil_chat_template_close(chat);
    }
    hil_tokenizer_close(tokenizer);
    printf("%zu masks\n", i);
    CHECK(i > 150);
    json_decref(golden);
}

#define TURNS                                                                                      \
    "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }}</>{% endfor %}"                       \
    "{% if add_generation_prompt %}<a>{% endif %}"
/* As Qwen3: an answer that others follow loses its thoughts. */
#define THINKS                                                                                     \
    "{% for m in messages %}<{{ m.role[0] }}>{% if loop.last and m.role == 'assistant' %}<think>"  \
    "</think>{% endif %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"
/* As QwQ: an answer does not begin as it is asked for. */
#define ASKED                                                                                      \
    "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }}{% endfor %}"                          \
    "{% if add_generation_prompt %}<a><think>{% endif %}"
#define MARKED                                                                                     \
    "{% for m in messages %}<{{ m.role[0] }}>{% if m.role == 'assistant' %}{% generation %}"       \
    "{{ m.content }}{% endgeneration %}{% endif %}{% endfor %}"
/* The block writes into a variable, so where its text ends up is not known. */
#define LOST                                                                                       \
    "{% for m in messages %}{% set x %}{% generation %}{{ m.content }}{% endgeneration %}"         \
    "{% endset %}<{{ m.role[0] }}>{{ x }}{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"

static hil_status learn(const char *text, hil_answers answers, hil_rendering *out)
{
    json_t *variables = json_pack(
        "{s:[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}, {s:s, s:s}, {s:s, s:s}]}", "messages", "role",
        "user", "content", "1", "role", "assistant", "content", "2", "role", "user", "content", "3",
        "role", "assistant", "content", "4", "role", "user", "content", "5");
    hil_chat_template *chat = open_template(text, strlen(text));
    *out = (hil_rendering){0};
    hil_status status = hil_chat_template_learned(chat, variables, answers, NULL, out);
    hil_chat_template_close(chat);
    json_decref(variables);
    return status;
}

/* In `expected` the learned bytes are '*', '(' for '<' and ')' for '>'. */
static void check_spans(const char *text, hil_answers answers, const char *expected)
{
    hil_rendering out;
    CHECK_OK(learn(text, answers, &out));
    for (size_t i = 0; i < out.span_count; ++i)
        for (size_t k = out.spans[i].begin; k < out.spans[i].end; ++k)
            out.text.data[k] = out.text.data[k] == '<' ? '(' : out.text.data[k] == '>' ? ')' : '*';
    CHECK_TEXT(out.text.data, expected);
    hil_rendering_free(&out);
}

static void check_refused(const char *text, hil_answers answers, const char *words)
{
    hil_rendering out;
    CHECK_FAILS(learn(text, answers, &out), HIL_ERR_INPUT, words);
    hil_rendering_free(&out);
}

int main(void)
{
    CHECK(mkdtemp(folder) != NULL);
    CHECK(atexit(clean) == 0);
    check_golden();
    check_spans(TURNS, HIL_ANSWERS_ASSISTANT, "<u>1</><a>*(*)<u>3</><a>*(*)<u>5</>");
    check_spans(TURNS, HIL_ANSWERS_LAST, "<u>1</><a>2</><u>3</><a>*(*)<u>5</>");
    check_spans("{{ messages[1].content }}<", HIL_ANSWERS_ALL, "*(");
    check_spans(MARKED, HIL_ANSWERS_ASSISTANT, "<u><a>*<u><a>*<u>");
    check_spans(MARKED, HIL_ANSWERS_LAST, "<u><a>2<u><a>*<u>");
    check_spans(LOST, HIL_ANSWERS_ASSISTANT, "<u>1<a>*<u>3<a>*<u>5");
    check_refused(THINKS, HIL_ANSWERS_ASSISTANT, "message 2: it is not certain what the model has");
    check_refused(THINKS, HIL_ANSWERS_ASSISTANT, "--train-on last");
    check_refused(ASKED, HIL_ANSWERS_ASSISTANT, "message 2: it is not certain where this answer");
    check_refused(ASKED, HIL_ANSWERS_LAST, "message 4: it is not certain where this answer");
    check_refused("{{ raise_exception('no') }}", HIL_ANSWERS_ALL, "no");
    return 0;
}
