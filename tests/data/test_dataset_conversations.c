/* test_dataset_conversations.c - records of conversations in several formats: the text that the
 * chat template makes of them, which bytes of it are learned, and which records are refused. */
#include "data/fixture.h"
#include "data/record.h"

#define TEMPLATE                                                                                   \
    "{% if tools %}{{ tools[0].name }}{% endif %}{% for m in messages %}{% if not m.role %}"       \
    "{{ raise_exception('who?') }}{% endif %}{{ m.role[0] }}:"                                     \
    "{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function|tojson }}{% endfor %};"         \
    "{% endfor %}{% if add_generation_prompt %}a:{% endif %}"

static hil_dataset_options chat_options(int64_t seq)
{
    static char folder[128];
    snprintf(folder, sizeof folder, "%s", fixture_folder);
    hil_dataset_options options = fixture_options(seq);
    options.chat = folder;
    return options;
}

/* The windows as text: a learned byte has a '_' before it, padding is '.'. */
static const char *windows(const char *records, const hil_dataset_options *options)
{
    static char text[4096];
    int32_t token[64], target[64], other[64];
    const char *path = fixture_text("c.jsonl", records);
    hil_dataset *dataset;
    size_t used = 0;
    CHECK(options->seq <= 64);
    CHECK_OK(hil_dataset_open(&dataset, &path, 1, options));
    for (int64_t w = 0; w < hil_dataset_windows(dataset); ++w) {
        CHECK_OK(hil_dataset_window(dataset, w, &(hil_window){token, target, other, other}));
        if (w) text[used++] = '|';
        for (int64_t t = 0; t < options->seq; ++t) {
            if (t && target[t - 1] >= 0) text[used++] = '_';
            text[used++] = token[t] == 256 ? '.' : (char)token[t];
        }
    }
    text[used] = 0;
    hil_dataset_close(dataset);
    return text;
}

#define HI "{\"role\": \"user\", \"content\": \"hi\"}"
#define HO "{\"role\": \"assistant\", \"content\": \"ho\"}"

static void check_messages(void)
{
    hil_dataset_options o = chat_options(24);
    const char *two = "{\"id\": 7, \"prompt\": \"hi\", \"messages\": [" HI ", " HO "]}\n";
    CHECK_TEXT(windows(two, &o), "u:hi;a:_h_o_;..............");
    o.answers = HIL_ANSWERS_ALL;
    CHECK_TEXT(windows(two, &o), "u_:_h_i_;_a_:_h_o_;..............");
    o.answers = HIL_ANSWERS_LAST;
    CHECK_TEXT(windows("{\"messages\": [" HI ", " HO ", " HI ", " HO "]}\n", &o),
               "u:hi;a:ho;u:hi;a:_h_o_;....");
    o.answers = HIL_ANSWERS_ASSISTANT;
    CHECK_TEXT(windows("{\"messages\": [" HI ", " HO ", " HI ", " HO "]}\n", &o),
               "u:hi;a:_h_o_;u:hi;a:_h_o_;....");
    /* parts of text are one text; several examples share a window */
    CHECK_TEXT(
        windows("{\"messages\": [" HI ", {\"role\": \"assistant\", \"content\": ["
                "{\"type\": \"text\", \"text\": \"x\"}, {\"type\": \"text\", \"text\": \"y\"}"
                "]}]}\n{\"messages\": [" HI ", " HO "]}\n",
                &o),
        "u:hi;a:_x_y_;u:hi;a:_h_o_;....");
    /* longer than a window: the end is cut off; nothing learned is left: left out */
    o.seq = 9;
    CHECK_TEXT(windows(two, &o), "u:hi;a:_h_o");
    CHECK_TEXT(windows("{\"messages\": [{\"role\": \"user\", \"content\": \"longer than it\"}, " HO
                       "]}\n{\"messages\": [" HI ", " HO "]}\n",
                       &o),
               "u:hi;a:_h_o");
}

/* Prompt and completion as lists of messages: the completion is learned, and no earlier answer. */
static void check_completions(void)
{
    hil_dataset_options o = chat_options(24);
    const char *record = "{\"prompt\": [" HI ", " HO ", " HI "], \"completion\": [" HO "]}\n";
    CHECK_TEXT(windows(record, &o), "u:hi;a:ho;u:hi;a:_h_o_;....");
    CHECK_TEXT(windows("{\"prompt\": \"hi\", \"completion\": [" HO "]}\n", &o),
               "u:hi;a:_h_o_;..............");
    o.answers = HIL_ANSWERS_ALL;
    CHECK_TEXT(windows(record, &o), "u_:_h_i_;_a_:_h_o_;_u_:_h_i_;_a_:_h_o_;....");
}

static void check_tools(void)
{
    hil_dataset_options o = chat_options(64);
    CHECK_TEXT(windows("{\"messages\": [" HI ", {\"role\": \"assistant\", \"content\": null, "
                       "\"tool_calls\": [{\"function\": {\"name\": \"f\", \"n\": 5}}]}, {\"role\": "
                       "\"tool\", \"content\": \"5\"}], \"tools\": [{\"name\": \"F\"}]}\n",
                       &o),
               "Fu:hi;a:_N_o_n_e_{_\"_n_a_m_e_\"_:_ _\"_f_\"_,_ _\"_n_\"_:_ "
               "_5_}_;t:5;..........................");
    o.seq = 47;
    CHECK_TEXT(
        windows("{\"conversations\": [{\"from\": \"human\", \"value\": \"hi\"}, {\"from\": "
                "\"function_call\", \"value\": \"{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": "
                "{}}\"}, {\"from\": \"observation\", \"value\": \"5\"}], \"tools\": "
                "\"[{\\\"name\\\": \\\"F\\\"}]\"}\n",
                &o),
        "Fu:hi;a:_{_\"_n_a_m_e_\"_:_ _\"_f_\"_,_ _\"_a_r_g_u_m_e_n_t_s_\"_:_ _{_}_}_;t:5;....");
}

static void check_sharegpt(void)
{
    hil_dataset_options o = chat_options(24);
    CHECK_TEXT(windows("{\"system\": \"be\", \"conversations\": [{\"from\": \"human\", \"value\": "
                       "\"hi\"}, {\"from\": \"gpt\", \"value\": \"ho\"}]}\n",
                       &o),
               "s:be;u:hi;a:_h_o_;.........");
    CHECK_TEXT(windows("{\"conversations\": [" HI ", " HO "]}\n", &o),
               "u:hi;a:_h_o_;..............");
}

static void check_alpaca(void)
{
    hil_dataset_options o = chat_options(24);
    const char *record = "{\"instruction\": \"do\", \"input\": \"it\", \"output\": \"ok\"}\n";
    CHECK_TEXT(windows(record, &o), "u:do\nit;a:_o_k_;...........");
    CHECK_TEXT(windows("{\"instruction\": \"do\", \"input\": \"\", \"output\": \"ok\", "
                       "\"history\": [[\"a\", \"b\"]]}\n",
                       &o),
               "u:a;a:_b_;u:do;a:_o_k_;......");
    o.chat = NULL; /* without a template: Stanford's prompt, as a prompt and its completion */
    const char *path = fixture_text("c.jsonl", record);
    hil_dataset *dataset;
    o.seq = 230;
    CHECK_OK(hil_dataset_open(&dataset, &path, 1, &o));
    CHECK_INT(hil_dataset_packing(dataset)->learned, 3);
    CHECK_INT(hil_dataset_tokens(dataset), 209 + 3);
    hil_dataset_close(dataset);
}

static void check_refused(const char *records, const char *words)
{
    hil_dataset_options o = chat_options(24);
    const char *path = fixture_text("c.jsonl", records);
    hil_dataset *dataset;
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &o), HIL_ERR_INPUT, words);
    o.chat = NULL;
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &o), HIL_ERR_INPUT, "");
}

static void check_refusals(void)
{
#define GOOD "{\"messages\": [" HI ", " HO "]}\n"
    check_refused(GOOD "{\"text\": \"a\"}\n",
                  "c.jsonl line 2: expected \"messages\", found \"text\"");
    check_refused(GOOD "\n{\"messages\": []}\n", "line 3: \"messages\" must be a list of messages");
    check_refused("{\"prompt\": [" HI "], \"completion\": [" HO ", " HI "]}\n",
                  "line 1: \"completion\" must be one message of the assistant");
    check_refused("{\"prompt\": [" HI "], \"completion\": [" HI "]}\n",
                  "must be one message of the assistant");
    check_refused("{\"messages\": [7]}\n", "line 1: message 1 must be an object");
    check_refused("{\"messages\": [" HI ", {\"role\": 1}]}\n",
                  "line 1: message 2: \"role\" must be");
    check_refused("{\"messages\": [" HI ", {\"role\": \"assistant\"}]}\n",
                  "line 1: message 2: \"content\" must be a string or a list of parts");
    check_refused("{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]}\n",
                  "message 1: part 1 of \"content\" is of type \"image\", but only text");
    check_refused("{\"messages\": [" HI ", " HO "], \"tools\": {}}\n", "\"tools\" must be a list");
    check_refused("{\"messages\": [" HI ", " HO "], \"tools\": \"x\"}\n",
                  "\"tools\" must be a list");
    check_refused("{\"messages\": [{\"role\": \"user\", \"content\": \"\", \"n\": "
                  "123456789012345678901234567890}]}\n",
                  "line 1: a number of a conversation has more than 64 bits");
    check_refused("{\"conversations\": [{\"from\": \"nobody\", \"value\": \"\"}]}\n",
                  "line 1: message 1 is from \"nobody\"; expected human, gpt");
    check_refused("{\"conversations\": [{\"from\": \"human\"}]}\n",
                  "must have \"from\" and \"value\"");
    check_refused("{\"conversations\": [{\"from\": \"function_call\", \"value\": \"f()\"}]}\n",
                  "message 1: a function_call must be JSON");
    check_refused("{\"instruction\": 1, \"output\": \"\"}\n", "\"instruction\" must be a string");
    check_refused("{\"instruction\": \"\", \"output\": \"\", \"history\": [[\"a\"]]}\n",
                  "entry 1 of \"history\" must be a list of two strings");
    check_refused("{\"messages\": [{\"role\": \"\", \"content\": \"\"}]}\n",
                  "chat_template.jinja, line 1: who?");
}

/* --format decides where a record could be read in two ways, and refuses what it does not say. */
static void check_format(void)
{
    hil_dataset_options o = chat_options(6);
    const char *both = "{\"text\": \"abcdef\", \"messages\": [" HI ", " HO "]}\n";
    CHECK_OK(hil_record_format_read("text", &o.format));
    CHECK_TEXT(windows(both, &o), "a_b_c_d_e_f");
    CHECK_OK(hil_record_format_read("prompt", &o.format));
    const char *path = fixture_text("c.jsonl", both);
    hil_dataset *dataset;
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &o), HIL_ERR_INPUT,
                "line 1: expected \"prompt\" and \"completion\", found \"text\", \"messages\"");
    CHECK_FAILS(hil_record_format_read("chat", &o.format), HIL_ERR_USAGE, "not 'chat'");
    CHECK_FAILS(hil_record_format_read("", &o.format), HIL_ERR_USAGE, "not ''");
}

/* The cache follows the template. */
static void check_stale(void)
{
    hil_dataset_options o = chat_options(10);
    const char *path = fixture_text("t.jsonl", GOOD);
    hil_dataset *dataset;
    CHECK_OK(hil_dataset_open(&dataset, &path, 1, &o));
    uint64_t content = hil_dataset_content(dataset);
    hil_dataset_close(dataset);
    fixture_text("chat_template.jinja", "!" TEMPLATE);
    CHECK_OK(hil_dataset_open(&dataset, &path, 1, &o));
    CHECK(hil_dataset_content(dataset) != content);
    hil_dataset_close(dataset);
}

/* Whichever allocation fails: an error, and nothing is left behind. */
static void check_memory(void)
{
    hil_dataset_options o = chat_options(24);
    const char *path = fixture_text(
        "f.jsonl", "{\"conversations\": [{\"from\": \"human\", \"value\": \"hi\"}, {\"from\": "
                   "\"gpt\", \"value\": \"ho\"}], \"tools\": \"[]\"}\n");
    hil_dataset *dataset;
    hil_status status = HIL_ERR_MEMORY;
    long n = 0;
    while (status != HIL_OK) {
        hil_alloc_fail_at(++n);
        status = hil_dataset_open(&dataset, &path, 1, &o);
        hil_alloc_fail_at(0);
        CHECK(status == HIL_OK || status == HIL_ERR_MEMORY);
    }
    CHECK(n > 20);
    CHECK_INT(hil_dataset_packing(dataset)->conversations, 1);
    hil_dataset_close(dataset);
}

int main(void)
{
    fixture_create();
    fixture_text("chat_template.jinja", TEMPLATE);
    check_messages();
    check_tools();
    check_sharegpt();
    check_alpaca();
    check_completions();
    check_refusals();
    check_format();
    check_memory();
    check_stale();
    return 0;
}
