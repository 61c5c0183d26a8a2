/* test_chat_template.c - where the chat template of a model folder is found, which of several is
   used, and its special tokens. */
#include "base/json.h"
#include "check.h"
#include "io/file.h"
#include "text/chat_template.h"

#include <unistd.h>

static char folder[] = "/tmp/hilbert-chat-XXXXXX";

static void put(const char *name, const char *text)
{
    char path[HIL_PATH_MAX];
    CHECK_OK(hil_path_join(path, folder, name));
    CHECK_OK(hil_file_write(path, text, strlen(text)));
}

static void begin(void)
{
    CHECK_OK(hil_file_remove_tree(folder));
    CHECK_OK(hil_dir_create(folder));
}

static void check_renders(const char *variables, const char *expected)
{
    hil_chat_template *chat;
    hil_rendering out = {0};
    json_t *json;
    CHECK_OK(hil_json_parse(variables, strlen(variables), "variables", &json));
    CHECK_OK(hil_chat_template_open(&chat, folder));
    CHECK_OK(hil_chat_template_render(chat, json, NULL, &out));
    CHECK_TEXT(out.text.data, expected);
    hil_rendering_free(&out);
    hil_chat_template_close(chat);
    json_decref(json);
}

static void test_config(void)
{
    begin();
    put("tokenizer_config.json",
        "{\"chat_template\": \"{{ bos_token }}{{ messages[0] }}{{ eos_token }}{{ pad_token }}\","
        " \"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\", \"lstrip\": false},"
        " \"pad_token\": null}");
    check_renders("{\"messages\": [\"hi\"]}", "<s>hi</s>");
    check_renders("{\"messages\": [\"hi\"], \"bos_token\": \"B\"}", "Bhi</s>");
    put("tokenizer_config.json", /* as published folders have it */
        "{\"chat_template\": \"{{ bos_token }}{{ messages[0] }}{{ eos_token }}{{ pad_token }}\","
        " \"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\", \"lstrip\": false},"
        " \"model_max_length\": 1000000000000000019884624838656}");
    check_renders("{\"messages\": [\"hi\"]}", "<s>hi</s>");
    put("special_tokens_map.json", "{\"bos_token\": \"no\", \"pad_token\": \"<pad>\"}");
    check_renders("{\"messages\": [\"hi\"]}", "<s>hi</s><pad>");
    put("chat_template.jinja", "file {{ messages[0] }}\n");
    check_renders("{\"messages\": [\"hi\"]}", "file hi");
}

static void test_named(void)
{
    begin();
    put("tokenizer_config.json",
        "{\"chat_template\": [{\"name\": \"default\", \"template\": \"d\"},"
        " {\"name\": \"tool_use\", \"template\": \"t\"},"
        " {\"name\": \"rag\", \"template\": \"{{\"}]}");
    check_renders("{\"messages\": []}", "d");
    check_renders("{\"messages\": [], \"tools\": null}", "d");
    check_renders("{\"messages\": [], \"tools\": [1]}", "t");
    put("chat_template.jinja", "file");
    char path[HIL_PATH_MAX];
    CHECK_OK(hil_path_join(path, folder, "additional_chat_templates"));
    CHECK_OK(hil_dir_create(path));
    put("additional_chat_templates/tool_use.jinja", "tools");
    check_renders("{\"messages\": [], \"tools\": [1]}", "tools");
    check_renders("{\"messages\": []}", "file");
}

static void test_errors(void)
{
    hil_chat_template *chat;
    begin();
    CHECK_FAILS(hil_chat_template_open(&chat, folder), HIL_ERR_INPUT, "has no chat template");
    put("tokenizer_config.json", "{\"chat_template\": 3}");
    CHECK_FAILS(hil_chat_template_open(&chat, folder), HIL_ERR_INPUT, "must be a string");
    put("tokenizer_config.json", "[]");
    CHECK_FAILS(hil_chat_template_open(&chat, folder), HIL_ERR_INPUT, "not a JSON object");
    put("tokenizer_config.json", "{\"chat_template\": \"\\n{% x %}\"}");
    CHECK_FAILS(hil_chat_template_open(&chat, folder), HIL_ERR_INPUT,
                "tokenizer_config.json, line 2");
    put("tokenizer_config.json", "{\"chat_template\": \"x\"}");
    hil_rendering out = {0};
    json_t *list = json_array();
    CHECK_OK(hil_chat_template_open(&chat, folder));
    CHECK_FAILS(hil_chat_template_render(chat, list, NULL, &out), HIL_ERR_INPUT, "a JSON object");
    hil_chat_template_close(chat);
    json_decref(list);
}

int main(void)
{
    CHECK(mkdtemp(folder));
    test_config();
    test_named();
    test_errors();
    CHECK_OK(hil_file_remove_tree(folder));
    return 0;
}
