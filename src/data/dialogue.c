/* dialogue.c - messages, ShareGPT and Alpaca records to one form. */
#include "data/dialogue.h"

#include <string.h>

static hil_status no_memory(void)
{
    return hil_fail(HIL_ERR_MEMORY, "out of memory: a conversation");
}

/* Adds `value` to `object`; takes over `value`, which may be NULL: out of memory. */
static hil_status put(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0 ? HIL_OK : no_memory();
}

static hil_status append(json_t *messages, json_t *message)
{
    return json_array_append_new(messages, message) == 0 ? HIL_OK : no_memory();
}

/* A message of a text that is in another object. */
static json_t *new_message(const char *role, const json_t *text)
{
    return json_pack("{s:s, s:O}", "role", role, "content", (json_t *)(uintptr_t)text);
}

/* A member that is text where it is there; *out is NULL when it is not, or null. */
static hil_status optional_text(const json_t *record, const char *key, const json_t **out)
{
    *out = json_object_get(record, key);
    if (!*out || json_is_string(*out)) return HIL_OK;
    if (!json_is_null(*out)) return hil_fail(HIL_ERR_INPUT, "\"%s\" must be a string", key);
    *out = NULL;
    return HIL_OK;
}

static hil_status begin(json_t **variables, json_t **messages)
{
    *variables = json_pack("{s:[], s:n, s:n}", "messages", "tools", "documents");
    *messages = json_object_get(*variables, "messages");
    return *variables ? HIL_OK : no_memory();
}

/* Sets `tools`: a list, or a list in a string, as some collections keep it. */
static hil_status put_tools(json_t *variables, const json_t *record)
{
    const json_t *tools = json_object_get(record, "tools");
    json_t *parsed = NULL;
    if (json_is_string(tools) && json_string_length(tools) == 0) tools = NULL;
    if (!tools || json_is_null(tools)) return HIL_OK;
    if (json_is_string(tools))
        parsed = json_loadb(json_string_value(tools), json_string_length(tools),
                            JSON_REJECT_DUPLICATES, NULL);
    else
        parsed = json_incref((json_t *)(uintptr_t)tools);
    if (!json_is_array(parsed)) {
        json_decref(parsed);
        return hil_fail(HIL_ERR_INPUT, "\"tools\" must be a list, or a string with one");
    }
    if (json_array_size(parsed)) return put(variables, "tools", parsed);
    json_decref(parsed);
    return HIL_OK;
}

/* Further variables of the template, under the name that TRL has for them. */
static hil_status put_kwargs(json_t *variables, const json_t *record)
{
    json_t *more = json_object_get(record, "chat_template_kwargs");
    if (!more || json_is_null(more)) return HIL_OK;
    if (!json_is_object(more))
        return hil_fail(HIL_ERR_INPUT, "\"chat_template_kwargs\" must be an object");
    return json_object_update_missing(variables, more) == 0 ? HIL_OK : no_memory();
}

/* Parts of text as one string. */
static hil_status join_parts(const json_t *parts, size_t number, json_t **out)
{
    hil_text text = {0};
    hil_status status = hil_text_add(&text, "", 0);
    const json_t *part;
    size_t i;
    json_array_foreach(parts, i, part)
    {
        const json_t *piece = json_is_string(part) ? part : json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));
        if (!json_is_string(piece) || (type && strcmp(type, "text") != 0))
            HIL_TRY_DONE(hil_fail(HIL_ERR_INPUT,
                                  "message %zu: part %zu of \"content\" is %s%s%s, but only text "
                                  "can be learned",
                                  number, i + 1, type ? "of type \"" : "not text", type ? type : "",
                                  type ? "\"" : ""));
        HIL_TRY_DONE(hil_text_add(&text, json_string_value(piece), json_string_length(piece)));
    }
    *out = json_stringn(text.data, text.size);
    if (!*out) status = no_memory();
done:
    hil_text_free(&text);
    return status;
}

/* Appends a message as it is, but with its content as one text. */
static hil_status add_message(json_t *messages, const json_t *message)
{
    size_t number = json_array_size(messages) + 1;
    if (!json_is_object(message))
        return hil_fail(HIL_ERR_INPUT, "message %zu must be an object", number);
    if (!json_is_string(json_object_get(message, "role")))
        return hil_fail(HIL_ERR_INPUT, "message %zu: \"role\" must be a string", number);
    const json_t *content = json_object_get(message, "content");
    if (!json_is_array(content)) {
        bool calls = json_is_array(json_object_get(message, "tool_calls"));
        if (!json_is_string(content) && !(calls && (!content || json_is_null(content))))
            return hil_fail(HIL_ERR_INPUT,
                            "message %zu: \"content\" must be a string or a list of parts", number);
        return append(messages, json_incref((json_t *)(uintptr_t)message));
    }
    json_t *text, *copy;
    HIL_TRY(join_parts(content, number, &text));
    copy = json_copy((json_t *)(uintptr_t)message);
    if (copy && json_object_set(copy, "content", text) != 0) {
        json_decref(copy);
        copy = NULL;
    }
    json_decref(text);
    return append(messages, copy);
}

static hil_status check_count(const json_t *messages, const char *key)
{
    if (json_array_size(messages)) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "\"%s\" must be a list of messages, at least one", key);
}

static hil_status fill_messages(const json_t *record, json_t *variables, json_t *messages)
{
    const json_t *given = json_object_get(record, "messages"), *message;
    size_t i;
    HIL_TRY(check_count(given, "messages"));
    json_array_foreach(given, i, message) HIL_TRY(add_message(messages, message));
    HIL_TRY(put_tools(variables, record));
    return put_kwargs(variables, record);
}

/* The message of a tool call that ShareGPT keeps as JSON in a string. */
static hil_status add_call(json_t *messages, const json_t *value)
{
    size_t number = json_array_size(messages) + 1;
    json_t *parsed = json_loadb(json_string_value(value), json_string_length(value),
                                JSON_REJECT_DUPLICATES, NULL),
           *calls = json_array(), *call;
    hil_status status = calls ? HIL_OK : no_memory();
    size_t i, count = json_is_array(parsed) ? json_array_size(parsed) : 1;
    for (i = 0; i < count && status == HIL_OK; ++i) {
        call = json_is_array(parsed) ? json_array_get(parsed, i) : parsed;
        if (!json_is_string(json_object_get(call, "name")))
            status = hil_fail(HIL_ERR_INPUT,
                              "message %zu: a function_call must be JSON with \"name\" and "
                              "\"arguments\"",
                              number);
        else
            status = append(calls, json_pack("{s:s, s:O}", "type", "function", "function", call));
    }
    if (status == HIL_OK)
        status = append(messages, json_pack("{s:s, s:s, s:O}", "role", "assistant", "content", "",
                                            "tool_calls", calls));
    json_decref(calls);
    json_decref(parsed);
    return status;
}

/* What ShareGPT's speakers are called elsewhere; NULL: unknown. */
static const char *role_of(const char *from)
{
    static const char *const names[][2] = {{"human", "user"},
                                           {"user", "user"},
                                           {"gpt", "assistant"},
                                           {"chatgpt", "assistant"},
                                           {"assistant", "assistant"},
                                           {"model", "assistant"},
                                           {"bot", "assistant"},
                                           {"system", "system"},
                                           {"tool", "tool"},
                                           {"observation", "tool"},
                                           {"function_response", "tool"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        if (strcmp(from, names[i][0]) == 0) return names[i][1];
    return NULL;
}

static hil_status add_turn(json_t *messages, const json_t *turn)
{
    size_t number = json_array_size(messages) + 1;
    const char *from = json_string_value(json_object_get(turn, "from"));
    const json_t *value = json_object_get(turn, "value");
    if (!from && json_object_get(turn, "role")) return add_message(messages, turn);
    if (!from || !json_is_string(value))
        return hil_fail(HIL_ERR_INPUT, "message %zu must have \"from\" and \"value\", both strings",
                        number);
    if (strcmp(from, "function_call") == 0) return add_call(messages, value);
    const char *role = role_of(from);
    if (!role)
        return hil_fail(
            HIL_ERR_INPUT,
            "message %zu is from \"%.60s\"; expected human, gpt, system, function_call, "
            "observation or tool",
            number, from);
    return append(messages, new_message(role, value));
}

static hil_status add_system(json_t *messages, const json_t *record)
{
    const json_t *system;
    HIL_TRY(optional_text(record, "system", &system));
    if (!system || json_string_length(system) == 0) return HIL_OK;
    return append(messages, new_message("system", system));
}

static hil_status fill_sharegpt(const json_t *record, json_t *variables, json_t *messages)
{
    const json_t *given = json_object_get(record, "conversations"), *turn;
    size_t i;
    HIL_TRY(check_count(given, "conversations"));
    HIL_TRY(add_system(messages, record));
    json_array_foreach(given, i, turn) HIL_TRY(add_turn(messages, turn));
    HIL_TRY(put_tools(variables, record));
    return put_kwargs(variables, record);
}

/* The three texts of an Alpaca record; *input is NULL when it is missing or empty. */
static hil_status read_alpaca(const json_t *record, const json_t **instruction,
                              const json_t **input)
{
    const json_t *output;
    HIL_TRY(optional_text(record, "instruction", instruction));
    HIL_TRY(optional_text(record, "input", input));
    HIL_TRY(optional_text(record, "output", &output));
    if (!*instruction || !output)
        return hil_fail(HIL_ERR_INPUT, "\"instruction\" and \"output\" must be strings");
    if (*input && json_string_length(*input) == 0) *input = NULL;
    return HIL_OK;
}

static hil_status add_history(json_t *messages, const json_t *record)
{
    const json_t *history = json_object_get(record, "history"), *pair;
    size_t i;
    if (!history || json_is_null(history)) return HIL_OK;
    if (!json_is_array(history)) return hil_fail(HIL_ERR_INPUT, "\"history\" must be a list");
    json_array_foreach(history, i, pair)
    {
        const json_t *asked = json_array_get(pair, 0), *answered = json_array_get(pair, 1);
        if (!json_is_string(asked) || !json_is_string(answered) || json_array_size(pair) != 2)
            return hil_fail(HIL_ERR_INPUT, "entry %zu of \"history\" must be a list of two strings",
                            i + 1);
        HIL_TRY(append(messages, new_message("user", asked)));
        HIL_TRY(append(messages, new_message("assistant", answered)));
    }
    return HIL_OK;
}

static hil_status add_question(json_t *messages, const json_t *instruction, const json_t *input)
{
    hil_text text = {0};
    hil_status status;
    HIL_TRY_DONE(
        hil_text_add(&text, json_string_value(instruction), json_string_length(instruction)));
    if (input) {
        HIL_TRY_DONE(hil_text_add(&text, "\n", 1));
        HIL_TRY_DONE(hil_text_add(&text, json_string_value(input), json_string_length(input)));
    }
    status =
        append(messages, json_pack("{s:s, s:s%}", "role", "user", "content", text.data, text.size));
done:
    hil_text_free(&text);
    return status;
}

static hil_status fill_alpaca(const json_t *record, json_t *variables, json_t *messages)
{
    const json_t *instruction, *input;
    (void)variables;
    HIL_TRY(read_alpaca(record, &instruction, &input));
    HIL_TRY(add_system(messages, record));
    HIL_TRY(add_history(messages, record));
    HIL_TRY(add_question(messages, instruction, input));
    return append(messages, new_message("assistant", json_object_get(record, "output")));
}

static hil_status convert(const json_t *record, json_t **variables,
                          hil_status (*fill)(const json_t *, json_t *, json_t *))
{
    json_t *messages;
    HIL_TRY(begin(variables, &messages));
    hil_status status = fill(record, *variables, messages);
    if (status == HIL_OK) return HIL_OK;
    json_decref(*variables);
    *variables = NULL;
    return status;
}

static bool is_answer(const json_t *messages, size_t i)
{
    const char *role = json_string_value(json_object_get(json_array_get(messages, i), "role"));
    return role && strcmp(role, "assistant") == 0;
}

static hil_status add_turns(const json_t *record, const char *key, json_t *messages)
{
    const json_t *given = json_object_get(record, key), *turn;
    size_t i;
    HIL_TRY(check_count(given, key));
    json_array_foreach(given, i, turn) HIL_TRY(add_turn(messages, turn));
    return HIL_OK;
}

/* One side of a pair: prompt, then the messages of `key`. */
static hil_status fill_side(const json_t *record, const char *key, json_t *variables,
                            json_t *messages)
{
    const json_t *prompt = json_object_get(record, "prompt");
    if (json_is_array(prompt)) HIL_TRY(add_turns(record, "prompt", messages));
    HIL_TRY(add_turns(record, key, messages));
    if (json_is_string(prompt) && is_answer(messages, 0)) {
        json_t *question = new_message("user", prompt);
        if (!question || json_array_insert_new(messages, 0, question) != 0) return no_memory();
    }
    HIL_TRY(put_tools(variables, record));
    return put_kwargs(variables, record);
}

static hil_status fill_completion(const json_t *record, json_t *variables, json_t *messages)
{
    HIL_TRY(fill_side(record, "completion", variables, messages));
    size_t count = json_array_size(messages);
    if (json_array_size(json_object_get(record, "completion")) == 1 && count > 1 &&
        is_answer(messages, count - 1))
        return HIL_OK;
    return hil_fail(HIL_ERR_INPUT,
                    "\"completion\" must be one message of the assistant, after a \"prompt\" of "
                    "messages; a conversation with more to learn is a record with \"messages\"");
}

static hil_status fill_chosen(const json_t *record, json_t *variables, json_t *messages)
{
    return fill_side(record, "chosen", variables, messages);
}

static hil_status fill_rejected(const json_t *record, json_t *variables, json_t *messages)
{
    return fill_side(record, "rejected", variables, messages);
}

/* Checks that two conversations differ in their last message alone, and that it is an answer. */
static hil_status check_pair(json_t *const variables[2])
{
    const json_t *a = json_object_get(variables[0], "messages");
    const json_t *b = json_object_get(variables[1], "messages");
    size_t count = json_array_size(a), same = 0;
    while (same < count && json_equal(json_array_get(a, same), json_array_get(b, same))) ++same;
    if (json_array_size(b) != count || same + 1 < count)
        return hil_fail(HIL_ERR_INPUT,
                        "\"chosen\" and \"rejected\" must differ in their last message alone: they "
                        "have %zu and %zu messages, and message %zu differs",
                        count, json_array_size(b), same + 1);
    if (count > 1 && is_answer(a, count - 1) && is_answer(b, count - 1)) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT,
                    "\"chosen\" and \"rejected\" must end with a message of the assistant, which "
                    "follows another message");
}

hil_status hil_dialogue_pair(const json_t *record, json_t *variables[2])
{
    variables[0] = variables[1] = NULL;
    hil_status status = convert(record, &variables[0], fill_chosen);
    if (status == HIL_OK) status = convert(record, &variables[1], fill_rejected);
    if (status == HIL_OK) status = check_pair(variables);
    for (int i = 0; i < 2 && status != HIL_OK; ++i) {
        json_decref(variables[i]);
        variables[i] = NULL;
    }
    return status;
}

hil_status hil_dialogue_completion(const json_t *record, json_t **variables)
{
    return convert(record, variables, fill_completion);
}

hil_status hil_dialogue_messages(const json_t *record, json_t **variables)
{
    return convert(record, variables, fill_messages);
}

hil_status hil_dialogue_sharegpt(const json_t *record, json_t **variables)
{
    return convert(record, variables, fill_sharegpt);
}

hil_status hil_dialogue_alpaca(const json_t *record, json_t **variables)
{
    return convert(record, variables, fill_alpaca);
}

hil_status hil_dialogue_alpaca_prompt(const json_t *record, hil_text *prompt)
{
    static const char with[] =
        "Below is an instruction that describes a task, paired with an input "
        "that provides further context. Write a response that appropriately "
        "completes the request.\n\n### Instruction:\n";
    static const char without[] = "Below is an instruction that describes a task. Write a response "
                                  "that appropriately completes the request.\n\n### Instruction:\n";
    const json_t *instruction, *input, *system;
    HIL_TRY(read_alpaca(record, &instruction, &input));
    HIL_TRY(optional_text(record, "system", &system));
    if (json_array_size(json_object_get(record, "history")) || json_string_length(system))
        return hil_fail(HIL_ERR_INPUT,
                        "\"system\" and \"history\" need a model with a chat template");
    HIL_TRY(hil_text_print(prompt, "%s", input ? with : without));
    HIL_TRY(hil_text_add(prompt, json_string_value(instruction), json_string_length(instruction)));
    if (input) {
        HIL_TRY(hil_text_print(prompt, "\n\n### Input:\n"));
        HIL_TRY(hil_text_add(prompt, json_string_value(input), json_string_length(input)));
    }
    return hil_text_print(prompt, "\n\n### Response:\n");
}
