/* test_dataset_pairs.c - pairs of answers: their formats, that both stay in one window, what is cut
   off and left out, and which records are refused. */
#include "data/fixture.h"
#include "data/record.h"

#define TEMPLATE                                                                                   \
    "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}"                          \
    "{% if add_generation_prompt %}a:{% endif %}"

static hil_dataset_options pair_options(int64_t seq)
{
    static char folder[128];
    snprintf(folder, sizeof folder, "%s", fixture_folder);
    hil_dataset_options options = fixture_options(seq);
    options.chat = folder;
    options.format = HIL_FORMAT_PREFERENCE;
    options.answers = HIL_ANSWERS_LAST;
    return options;
}

/* The windows as text: '[' before a document, '_' before a learned byte, '.' for 256. */
static const char *windows_of(const char *records, int64_t seq, hil_record_format format)
{
    static char text[4096];
    int32_t token[64], target[64], position[64], first[64];
    hil_dataset_options options = pair_options(seq);
    options.format = format;
    const char *path = fixture_text("p.jsonl", records);
    hil_dataset *dataset;
    size_t used = 0;
    CHECK(seq <= 64);
    CHECK_OK(hil_dataset_open(&dataset, &path, 1, &options));
    for (int64_t w = 0; w < hil_dataset_windows(dataset); ++w) {
        CHECK_OK(hil_dataset_window(dataset, w, &(hil_window){token, target, position, first}));
        if (w) text[used++] = '|';
        for (int64_t t = 0; t < seq; ++t) {
            CHECK_INT(position[t], t - first[t]);
            if (first[t] == t) text[used++] = '[';
            if (t && target[t - 1] >= 0) text[used++] = '_';
            text[used++] = token[t] == 256 ? '.' : (char)token[t];
        }
    }
    text[used] = 0;
    hil_dataset_close(dataset);
    return text;
}

static const char *windows(const char *records, int64_t seq)
{
    return windows_of(records, seq, HIL_FORMAT_PREFERENCE);
}

static hil_packing packing_of(const char *records, int64_t seq)
{
    const hil_dataset_options options = pair_options(seq);
    const char *path = fixture_text("q.jsonl", records);
    hil_dataset *dataset;
    CHECK_OK(hil_dataset_open(&dataset, &path, 1, &options));
    hil_packing packing = *hil_dataset_packing(dataset);
    hil_dataset_close(dataset);
    return packing;
}

#define PAIR(prompt, chosen, rejected)                                                             \
    "{\"prompt\": \"" prompt "\", \"chosen\": \"" chosen "\", \"rejected\": \"" rejected "\"}\n"

static void check_texts(void)
{
    CHECK_TEXT(windows(PAIR("ab", "c", "de"), 12), "[ab_c_.[ab_d_e_.[...");
    /* the prompt is what both begin with, without its last space, in whole characters */
    CHECK_TEXT(windows("{\"chosen\": \"hi you\", \"rejected\": \"hi me\"}\n", 16),
               "[hi_ _y_o_u_.[hi_ _m_e_.[...");
    const char *accent = windows("{\"chosen\": \"a\\u00e4\", \"rejected\": \"a\\u00f6\"}\n", 9);
    CHECK_TEXT(accent, "[a_\xc3_\xa4_.[a_\xc3_\xb6_.[.");
    /* best fit of whole pairs: the third goes beside the first, after a full window */
    CHECK_TEXT(windows(PAIR("a", "b", "c") PAIR("abcd", "e", "f") PAIR("x", "y", "z"), 12),
               "[abcd_e_.[abcd_f_.|[a_b_.[a_c_.[x_y_.[x_z_.");
}

static void check_cut(void)
{
    /* both are longer than half a window */
    CHECK_TEXT(windows(PAIR("ab", "cdefg", "hijkl"), 8), "[ab_c_d[ab_h_i");
    /* one leaves more than half to the other */
    CHECK_TEXT(windows(PAIR("a", "bcdefghij", "k"), 8), "[a_b_c_d_e[a_k_.");
    CHECK_TEXT(windows(PAIR("a", "k", "bcdefghij"), 8), "[a_k_.[a_b_c_d_e");
    hil_packing p =
        packing_of(PAIR("a", "bcdefghij", "k") PAIR("abcdef", "g", "h") PAIR("a", "b", "c"), 8);
    CHECK_INT(p.examples, 3);
    CHECK_INT(p.cut, 1);
    CHECK_INT(p.cut_tokens, 6);
    CHECK_INT(p.left_out, 1); /* the prompt fills half a window */
    CHECK_INT(p.windows, 2);
}

#define ASK "{\"role\": \"user\", \"content\": \"hi\"}"
#define GOOD "{\"role\": \"assistant\", \"content\": \"yo\"}"
#define BAD "{\"role\": \"assistant\", \"content\": \"no\"}"

static void check_conversations(void)
{
    const char *expected = "[u:hi;a:_y_o_;[u:hi;a:_n_o_;[....";
    CHECK_TEXT(
        windows("{\"prompt\": [" ASK "], \"chosen\": [" GOOD "], \"rejected\": [" BAD "]}\n", 24),
        expected);
    CHECK_TEXT(windows("{\"chosen\": [" ASK ", " GOOD "], \"rejected\": [" ASK ", " BAD "]}\n", 24),
               expected);
    /* a prompt as text: the question, or what the conversations repeat */
    CHECK_TEXT(
        windows("{\"prompt\": \"hi\", \"chosen\": [" GOOD "], \"rejected\": [" BAD "]}\n", 24),
        expected);
    CHECK_TEXT(windows("{\"prompt\": \"hi\", \"messages\": 1, \"chosen\": [" ASK ", " GOOD
                       "], \"rejected\": [" ASK ", " BAD "]}\n",
                       24),
               expected);
    CHECK_TEXT(windows("{\"prompt\": [{\"from\": \"human\", \"value\": \"hi\"}], \"chosen\": "
                       "[{\"from\": \"gpt\", \"value\": \"yo\"}], \"rejected\": [" BAD "]}\n",
                       24),
               expected);
    /* earlier answers are part of the prompt */
    CHECK_TEXT(windows("{\"chosen\": [" ASK ", " BAD ", " ASK ", " GOOD "], \"rejected\": [" ASK
                       ", " BAD ", " ASK ", " BAD "]}\n",
                       40),
               "[u:hi;a:no;u:hi;a:_y_o_;[u:hi;a:no;u:hi;a:_n_o_;");
}

static void refuse(const char *record, const char *message)
{
    const hil_dataset_options options = pair_options(16);
    const char *path = fixture_text("r.jsonl", record);
    hil_dataset *dataset;
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &options), HIL_ERR_INPUT, message);
}

#define JUDGED(prompt, completion, label)                                                          \
    "{\"prompt\": \"" prompt "\", \"completion\": \"" completion "\", \"label\": " label "}\n"

static const char *judged(const char *records, int64_t seq)
{
    return windows_of(records, seq, HIL_FORMAT_JUDGED);
}

/* A single answer is a pair whose other side is one token. */
static void check_judged(void)
{
    CHECK_TEXT(judged(JUDGED("ab", "c", "true"), 8), "[ab_c_.[.[...");
    CHECK_TEXT(judged(JUDGED("ab", "c", "false"), 8), "[.[ab_c_.[...");
    CHECK_TEXT(judged(JUDGED("a", "b", "1") JUDGED("c", "d", "0") PAIR("x", "y", "z"), 16),
               "[a_b_.[.[.[c_d_.[x_y_.[x_z_.[..");
    CHECK_TEXT(judged(JUDGED("ab", "c", "0, \"hash\": 18446744073709551615"), 8), "[.[ab_c_.[...");
    CHECK_TEXT(judged(JUDGED("a", "bcdefghij", "\"False\""), 6), "[.[a_b_c_d_e");
    CHECK_TEXT(judged("{\"chosen\": \"ab\", \"rejected\": \"ac\", \"label\": 7}\n", 8),
               "[a_b_.[a_c_.[..");
    CHECK_TEXT(judged("{\"prompt\": [" ASK "], \"completion\": [" GOOD "], \"label\": true}\n", 16),
               "[u:hi;a:_y_o_;[.[.....");
    /* rows of a table of both */
    CHECK_TEXT(judged(JUDGED("a", "b", "1, \"chosen\": null, \"rejected\": null")
                          PAIR("x", "y", "z\", \"label\": null, \"completion\": null, \"k\": \""),
                      16),
               "[a_b_.[.[x_y_.[x_z_.[......");
}

static void refuse_judged(const char *record, const char *message)
{
    hil_dataset_options options = pair_options(16);
    options.format = HIL_FORMAT_JUDGED;
    const char *path = fixture_text("j.jsonl", record);
    hil_dataset *dataset;
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &options), HIL_ERR_INPUT, message);
}

static void check_judged_refused(void)
{
    refuse_judged("{\"prompt\": \"a\", \"completion\": \"b\"}\n",
                  "line 1: expected \"prompt\", \"completion\" and \"label\", or \"chosen\" and "
                  "\"rejected\", found \"prompt\", \"completion\"");
    refuse_judged(JUDGED("a", "b", "null"), "found \"prompt\", \"completion\", \"label\" (null)");
    refuse_judged(JUDGED("a", "b", "2"), "line 1: \"label\" must be true or false");
    refuse_judged(JUDGED("a", "b", "\"good\""), "line 1: \"label\" must be true or false");
    refuse_judged("{\"prompt\": \"a\", \"completion\": 3, \"label\": true}\n",
                  "line 1: \"completion\" must be a string");
}

static void take_note(void *context, const char *line)
{
    snprintf(context, 256, "%s", line);
}

/* Where labels are not learned from, that is said. */
static void check_labels(void)
{
    static const char csv[] = "prompt,completion,label\na,b,false\n";
    static const char plain[] = "{\"prompt\": \"a\", \"completion\": \"b\"}\n";
    const char *const path[] = {fixture_text("l.jsonl", JUDGED("a", "b", "false")),
                                fixture_text("l.csv", csv), fixture_text("n.jsonl", plain)};
    for (int i = 0; i < 6; ++i) {
        char line[256] = "";
        hil_dataset *dataset;
        hil_dataset_options options = pair_options(4);
        options.format = i < 3 ? HIL_FORMAT_AUTO : HIL_FORMAT_PROMPT;
        options.note = take_note;
        options.context = line;
        CHECK_OK(hil_dataset_open(&dataset, &path[i % 3], 1, &options));
        hil_dataset_close(dataset);
        CHECK((strstr(line, "the \"label\" of a completion is ignored") != NULL) == (i % 3 < 2));
    }
}

static void check_refused(void)
{
    refuse("{\"prompt\": \"a\", \"completion\": \"b\"}\n",
           "line 1: expected \"chosen\" and \"rejected\", found \"prompt\", \"completion\"");
    refuse(PAIR("a", "b", "c") "{\"chosen\": \"a\", \"rejected\": 3}\n",
           "line 2: \"rejected\" must be a string");
    refuse("{\"chosen\": [" ASK ", " GOOD "], \"rejected\": \"x\"}\n",
           "line 1: \"rejected\" must be a list of messages, at least one");
    refuse("{\"chosen\": [" ASK ", " GOOD ", " ASK ", " GOOD "], \"rejected\": [" ASK ", " BAD
           ", " ASK ", " GOOD "]}\n",
           "line 1: \"chosen\" and \"rejected\" must differ in their last message alone: they have "
           "4 and 4 messages, and message 2 differs");
    refuse("{\"chosen\": [" GOOD ", " ASK "], \"rejected\": [" GOOD ", " ASK "]}\n",
           "line 1: \"chosen\" and \"rejected\" must end with a message of the assistant");
    const hil_dataset_options options = pair_options(16);
    const char *text = fixture_text("t.txt", "abcdefghijklmnopqrstuvw");
    hil_dataset *dataset;
    CHECK_FAILS(hil_dataset_open(&dataset, &text, 1, &options), HIL_ERR_INPUT,
                "t.txt: this --loss compares answers, which are records of a .jsonl, .json");
    hil_dataset_options other = options;
    const char *pair = fixture_text("s.jsonl", PAIR("a", "b", "c"));
    other.format = HIL_FORMAT_AUTO;
    CHECK_FAILS(hil_dataset_open(&dataset, &pair, 1, &other), HIL_ERR_INPUT,
                "line 1: a pair of answers (found \"prompt\", \"chosen\", \"rejected\") is for "
                "--loss dpo");
}

int main(void)
{
    fixture_create();
    fixture_text("chat_template.jinja", TEMPLATE);
    check_texts();
    check_cut();
    check_conversations();
    check_judged();
    check_judged_refused();
    check_labels();
    check_refused();
    return 0;
}
