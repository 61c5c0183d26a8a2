/* chat_template.c - finds the chat template of a model folder and gives it the special tokens. */
#include "text/chat_template.h"

#include "base/hash.h"
#include "io/file.h"

#include <string.h>

struct hil_chat_template {
    char *folder;
    hil_jinja *standard, *tool_use; /* either may be NULL, not both */
    json_t *tokens;                 /* bos_token and the like, as strings */
};

#define CONFIG_FILE "tokenizer_config.json"
#define TOKENS_FILE "special_tokens_map.json"
#define TEMPLATE_FILE "chat_template.jinja"
#define TOOLS_FILE "additional_chat_templates/tool_use.jinja"

static const char *const token_names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                          "pad_token", "cls_token", "mask_token"};

static hil_status no_memory(const char *folder)
{
    return hil_fail(HIL_ERR_MEMORY, "%s: out of memory while reading its chat template", folder);
}

/* Reads the JSON object in a file of the folder; NULL if there is no such file. */
static hil_status read_object(const char *folder, const char *name, json_t **out)
{
    HIL_TRY(hil_file_parse(folder, name, out));
    if (!*out || json_is_object(*out)) return HIL_OK;
    json_decref(*out);
    *out = NULL;
    return hil_fail(HIL_ERR_INPUT, "%s/%s: not a JSON object", folder, name);
}

/* Reads a template in its own file; *out stays NULL if there is none. */
static hil_status read_template(const char *folder, const char *name, hil_jinja **out)
{
    char path[HIL_PATH_MAX];
    hil_bytes bytes;
    HIL_TRY(hil_path_join(path, folder, name));
    if (!hil_file_exists(path)) return HIL_OK;
    HIL_TRY(hil_bytes_read(&bytes, path));
    hil_status status = hil_jinja_parse(out, bytes.data, bytes.size, path);
    hil_bytes_free(&bytes);
    return status;
}

static hil_status parse_member(const hil_chat_template *chat, const json_t *text, hil_jinja **out)
{
    char what[HIL_PATH_MAX];
    HIL_TRY(hil_path_join(what, chat->folder, CONFIG_FILE));
    if (!json_is_string(text))
        return hil_fail(HIL_ERR_INPUT,
                        "%s: \"chat_template\" must be a string, or a list of "
                        "objects with \"name\" and \"template\"",
                        what);
    hil_jinja_destroy(*out);
    return hil_jinja_parse(out, json_string_value(text), json_string_length(text), what);
}

/* Reads `chat_template` of tokenizer_config.json. */
static hil_status read_members(hil_chat_template *chat, const json_t *config)
{
    const json_t *member = json_object_get(config, "chat_template");
    if (!member || json_is_null(member)) return HIL_OK;
    if (!json_is_array(member)) return parse_member(chat, member, &chat->standard);
    for (size_t i = 0; i < json_array_size(member); ++i) {
        const json_t *entry = json_array_get(member, i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        const json_t *text = json_object_get(entry, "template");
        if (!name) return parse_member(chat, NULL, &chat->standard);
        if (strcmp(name, "default") == 0) HIL_TRY(parse_member(chat, text, &chat->standard));
        if (strcmp(name, "tool_use") == 0) HIL_TRY(parse_member(chat, text, &chat->tool_use));
    }
    return HIL_OK;
}

/* Reads the special tokens. A token is a string, or an object with its text as `content`. */
static hil_status read_tokens(hil_chat_template *chat, const json_t *config)
{
    for (size_t i = 0; i < sizeof token_names / sizeof *token_names; ++i) {
        json_t *token = json_object_get(config, token_names[i]);
        if (json_is_object(token)) token = json_object_get(token, "content");
        if (!json_is_string(token) || json_object_get(chat->tokens, token_names[i])) continue;
        if (json_object_set(chat->tokens, token_names[i], token) != 0)
            return no_memory(chat->folder);
    }
    return HIL_OK;
}

static hil_status read_folder(hil_chat_template *chat, const char *folder)
{
    json_t *config = NULL, *map = NULL;
    hil_status status;
    HIL_TRY_DONE(hil_text_copy(folder, &chat->folder));
    chat->tokens = json_object();
    if (!chat->tokens) HIL_TRY_DONE(no_memory(folder));
    HIL_TRY_DONE(read_object(folder, CONFIG_FILE, &config));
    HIL_TRY_DONE(read_object(folder, TOKENS_FILE, &map));
    HIL_TRY_DONE(read_tokens(chat, config));
    HIL_TRY_DONE(read_tokens(chat, map));
    HIL_TRY_DONE(read_template(folder, TEMPLATE_FILE, &chat->standard));
    HIL_TRY_DONE(read_template(folder, TOOLS_FILE, &chat->tool_use));
    if (!chat->standard && !chat->tool_use) HIL_TRY_DONE(read_members(chat, config));
    if (!chat->standard && !chat->tool_use)
        status =
            hil_fail(HIL_ERR_INPUT,
                     "%s has no chat template: neither chat_template.jinja nor "
                     "\"chat_template\" in tokenizer_config.json; copy the file of a model that "
                     "has one, or hilbert's examples/chat_template.jinja, into the folder",
                     folder);
done:
    json_decref(config);
    json_decref(map);
    return status;
}

hil_status hil_chat_template_open(hil_chat_template **out, const char *folder)
{
    hil_chat_template *chat;
    *out = NULL;
    HIL_TRY(HIL_ALLOC(1, &chat));
    hil_status status = read_folder(chat, folder);
    if (status == HIL_OK)
        *out = chat;
    else
        hil_chat_template_close(chat);
    return status;
}

void hil_chat_template_close(hil_chat_template *chat)
{
    if (!chat) return;
    hil_jinja_destroy(chat->standard);
    hil_jinja_destroy(chat->tool_use);
    json_decref(chat->tokens);
    hil_free(chat->folder);
    hil_free(chat);
}

static bool is_there(const char *folder, const char *name)
{
    char path[HIL_PATH_MAX];
    return hil_path_join(path, folder, name) == HIL_OK && hil_file_exists(path);
}

bool hil_chat_template_exists(const char *folder)
{
    json_t *config;
    if (is_there(folder, TEMPLATE_FILE) || is_there(folder, TOOLS_FILE)) return true;
    if (read_object(folder, CONFIG_FILE, &config) != HIL_OK) return true;
    const json_t *member = json_object_get(config, "chat_template");
    bool exists = member && !json_is_null(member);
    json_decref(config);
    return exists;
}

hil_status hil_chat_template_key(const char *folder, uint64_t *key)
{
    static const char *const names[] = {TEMPLATE_FILE, TOOLS_FILE, CONFIG_FILE, TOKENS_FILE};
    char path[HIL_PATH_MAX];
    hil_bytes bytes;
    *key = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        HIL_TRY(hil_path_join(path, folder, names[i]));
        if (!hil_file_exists(path)) continue;
        HIL_TRY(hil_bytes_read(&bytes, path));
        *key = hil_hash(*key ^ (i + 1), bytes.data, bytes.size);
        hil_bytes_free(&bytes);
    }
    return HIL_OK;
}

hil_status hil_chat_template_choose(const hil_chat_template *chat, const json_t *variables,
                                    const hil_jinja **out)
{
    const json_t *tools = json_object_get(variables, "tools");
    bool wants_tools = tools && !json_is_null(tools);
    *out = wants_tools && chat->tool_use ? chat->tool_use : chat->standard;
    if (*out) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT,
                    "%s has a chat template for conversations with tools only, and none named "
                    "default",
                    chat->folder);
}

hil_status hil_chat_template_render(const hil_chat_template *chat, const json_t *variables,
                                    const hil_jinja_limits *limits, hil_rendering *out)
{
    const hil_jinja *chosen;
    HIL_TRY(hil_chat_template_choose(chat, variables, &chosen));
    json_t *all = json_copy((json_t *)variables);
    hil_status status;
    if (all && json_object_update_missing(all, chat->tokens) == 0)
        status = hil_jinja_render(chosen, all, limits, out);
    else
        status = json_is_object(variables)
                     ? no_memory(chat->folder)
                     : hil_fail(HIL_ERR_INPUT, "a conversation must be a JSON object");
    json_decref(all);
    return status;
}
