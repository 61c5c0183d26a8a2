/* test_tokenizer_errors.c - damaged and unsupported tokenizers give a one-line error; so does each
   allocation that fails. */
#include "check.h"

#include "text/tokenizer.h"

#define REST "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]"

static void refuse(const char *json, const char *words)
{
    hil_tokenizer *tokenizer = NULL;
    CHECK_FAILS(hil_tokenizer_parse(&tokenizer, json, strlen(json), "t.json"), HIL_ERR_INPUT,
                words);
    CHECK(tokenizer == NULL);
}

/* A tokenizer with `member` before a valid model is refused with `words` in the message. */
static void refuse_member(const char *member, const char *words)
{
    char json[2048];
    snprintf(json, sizeof json, "{%s,\"model\":{\"type\":\"BPE\"," REST "}}", member);
    refuse(json, words);
}

static void refuse_model(const char *model, const char *words)
{
    char json[2048];
    snprintf(json, sizeof json, "{\"model\":{%s}}", model);
    refuse(json, words);
}

static void test_syntax(void)
{
    refuse("", "not valid JSON");
    refuse("{", "not valid JSON");
    refuse("[]", "object");
    refuse("{}", "no \"model\"");
    refuse("{\"model\":3}", "no \"model\"");
    refuse("{\"model\":{" REST "}", "not valid JSON");
    refuse("{\"model\":{" REST "}}x", "not valid JSON");
    refuse("{\"model\":{" REST "},\"model\":{" REST "}}", "not valid JSON");
    refuse("{\"model\":{" REST "," REST "}}", "not valid JSON");
    refuse("{\"a\":[[[", "not valid JSON");
    refuse("{\"a\":\"\\", "not valid JSON");
    hil_tokenizer *tokenizer;
    CHECK_FAILS(hil_tokenizer_open(&tokenizer, HIL_TESTS "/no-such-file"), HIL_ERR_IO,
                "no-such-file");
}

static void test_model(void)
{
    refuse_model("\"type\":\"WordPiece\"", "\"WordPiece\"");
    refuse_model("\"type\":\"Unigram\"", "no \"vocab\"");
    refuse_model("\"type\":\"Unigram\",\"vocab\":{}", "expected an array");
    refuse_model("\"type\":\"Unigram\",\"vocab\":[]", "no pieces");
    refuse_model("\"type\":\"Unigram\",\"vocab\":[[\"a\",1],[\"a\",2]]",
                 "\"a\" is in the vocabulary twice");
    refuse_model("\"type\":\"Unigram\",\"vocab\":[[\"a\"]]", "not a text and a score");
    refuse_model("\"type\":\"Unigram\",\"vocab\":[[\"a\",1,2]]", "not a text and a score");
    refuse_model("\"type\":\"Unigram\",\"vocab\":[[\"a\",\"1\"]]",
                 "score of \"a\" is not a number");
    refuse_model("\"type\":\"Unigram\",\"vocab\":[[\"a\",1.]]", "score of \"a\" is not a number");
    refuse_model("\"type\":\"Unigram\",\"vocab\":[[\"a\",1e999]]",
                 "score of \"a\" is not a number");
    refuse_model("\"vocab\":[[\"a\",1]],\"unk_id\":1", "unk_id 1 is not in the vocabulary");
    refuse_model("\"merges\":[]", "no \"vocab\"");
    refuse_model("\"vocab\":{}", "no \"merges\"");
    refuse_model("\"vocab\":[],\"merges\":[]", "expected an object");
    refuse_model("\"vocab\":{},\"merges\":{}", "expected an array");
    refuse_model("\"vocab\":{\"a\":-1},\"merges\":[]", "\"a\" must be in");
    refuse_model("\"vocab\":{\"a\":16777216},\"merges\":[]", "\"a\" must be in");
    refuse_model("\"vocab\":{\"a\":99999999999999999999},\"merges\":[]", "64 bits");
    refuse_model("\"vocab\":{\"a\":1.5},\"merges\":[]", "whole number");
    refuse_model("\"vocab\":{\"a\":1e2},\"merges\":[]", "whole number");
    refuse_model("\"vocab\":{\"a\":\"1\"},\"merges\":[]", "whole number");
    refuse_model("\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]", "twice");
    refuse_model("\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]", "twice");
    refuse_model("\"vocab\":{\"a\":0],\"merges\":[]", "not valid JSON");
    refuse_model("\"vocab\":{\"a\":0,},\"merges\":[]", "not valid JSON");
    refuse_model("\"vocab\":{\"\\u0000\":0},\"merges\":[]", "not valid JSON");
    refuse_model("\"vocab\":{\"\\ud800\":0},\"merges\":[]", "not valid JSON");
    refuse_model("\"vocab\":{\"\\x\":0},\"merges\":[]", "not valid JSON");
    refuse_model("\"vocab\":{\"\xff\":0},\"merges\":[]", "not UTF-8");
    refuse_model("\"vocab\":{\"a\":0},\"merges\":[\"a b\"]", "\"b\", which the vocabulary lacks");
    refuse_model("\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]",
                 "\"ab\", which the vocabulary");
    refuse_model("\"vocab\":{\"a\":0},\"merges\":[\"aa\"]", "merge 0 is not a pair");
    refuse_model("\"vocab\":{\"a\":0},\"merges\":[\"a a a\"]", "merge 0 is not a pair");
    refuse_model("\"vocab\":{\"a\":0,\"aa\":1},\"merges\":[\"a a\",[\"a\",\"a\",\"a\"]]",
                 "merge 1 is not a pair");
    refuse_model("\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]", "merge 0 is not a pair");
    refuse_model("\"vocab\":{\"a\":0},\"merges\":[7]", "expected a string");
    refuse_model("\"dropout\":0.1," REST, "dropout");
    refuse_model("\"end_of_word_suffix\":\"</w>\"," REST, "\"</w>\"");
    refuse_model("\"continuing_subword_prefix\":\"##\"," REST, "\"##\"");
    refuse_model("\"byte_fallback\":1," REST, "byte_fallback");
}

static void test_components(void)
{
    refuse_member("\"normalizer\":{\"type\":\"Nmt\"}", "\"Nmt\"");
    refuse_member(
        "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"BertNormalizer\"}]}",
        "\"BertNormalizer\"");
    refuse_member("\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x*\"},"
                  "\"content\":\"\"}",
                  "\"x*\" is not supported: it can match an empty text");
    refuse_member("\"normalizer\":{\"type\":\"Precompiled\"}", "charsmap is damaged");
    refuse_member("\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"/wAAAA==\"}",
                  "charsmap is damaged");
    refuse_member("\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},"
                  "\"content\":\"\"}",
                  "empty pattern");
    refuse_member("\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}", "\"UnicodeScripts\"");
    refuse_member("\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\","
                  "\"pattern\":{\"Regex\":\"\\\\d+(?<=1)\"}}",
                  "\"\\d+(?<=1)\"");
    refuse_member("\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Merged\","
                  "\"pattern\":{\"String\":\" \"}}",
                  "\"Merged\"");
    refuse_member("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"\"}}",
                  "no pattern");
    refuse_member("\"pre_tokenizer\":{\"type\":\"CharDelimiterSplit\"}", "no delimiter");
    refuse_member("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"xy\"}",
                  "one character");
    refuse_member("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\","
                  "\"prepend_scheme\":\"often\"}",
                  "\"often\"");
    refuse_member("\"decoder\":{\"type\":\"WordPiece\"}", "\"WordPiece\"");
    refuse_member("\"decoder\":{\"type\":\"Strip\",\"content\":\"\"}", "one character");
    refuse_member("\"post_processor\":{\"type\":\"RobertaProcessing\"}", "\"RobertaProcessing\"");
    refuse_member("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[]}", "one text");
    refuse_member("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["
                  "{\"SpecialToken\":{\"id\":\"x\"}},{\"Sequence\":{\"id\":\"A\"}}],"
                  "\"special_tokens\":{\"x\":{\"ids\":[3]}}}",
                  "unknown id");
    refuse_member("\"added_tokens\":[{\"id\":3}]", "no \"content\"");
    refuse_member("\"added_tokens\":[{\"content\":\"x\"},{\"content\":\"x\"}]",
                  "\"x\" is there twice");
}

/* A small tokenizer that uses every stage. */
static const char whole[] =
    "{\"added_tokens\":[{\"content\":\"<s>\",\"special\":true,\"lstrip\":true},"
    "{\"content\":\"ba\",\"normalized\":true}],"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},"
    "{\"type\":\"Prepend\",\"prepend\":\"_\"},"
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"_\"}]},"
    "\"decoder\":{\"type\":\"Sequence\",\"decoders\":["
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"_\"},\"content\":\" \"},"
    "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
    "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
    "{\"type\":\"Split\",\"behavior\":\"MergedWithNext\",\"pattern\":{\"Regex\":\"_+(?!_)\"}},"
    "{\"type\":\"Punctuation\"}]},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["
    "{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}],"
    "\"special_tokens\":{\"<s>\":{\"ids\":[6]}}},"
    "\"model\":{\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":true,"
    "\"vocab\":{\"<unk>\":0,\"_\":1,\"a\":2,\"b\":3,\"ab\":4,\"<0xC3>\":5},"
    "\"merges\":[[\"a\",\"b\"]]}}";

static hil_status use(hil_ids *ids, hil_text *text)
{
    hil_tokenizer *tokenizer;
    static const char input[] = "ab e\xCC\x81 aab <s> b ababababababababababababababababababababab"
                                "abababababababababababababababababababab";
    HIL_TRY(hil_tokenizer_parse(&tokenizer, whole, strlen(whole), "whole"));
    hil_status status = hil_tokenizer_encode(tokenizer, input, strlen(input), HIL_SPECIAL_ADD, ids);
    if (status == HIL_OK)
        status = hil_tokenizer_decode(tokenizer, ids->data, ids->size, HIL_SPECIAL_ADD, text);
    hil_tokenizer_close(tokenizer);
    return status;
}

static void test_memory(void)
{
    long n = 1;
    for (;; ++n) {
        hil_ids ids = {0};
        hil_text text = {0};
        hil_alloc_fail_at(n);
        hil_status status = use(&ids, &text);
        hil_alloc_fail_at(0);
        if (status == HIL_OK) CHECK(ids.size > 0 && text.size > 0);
        hil_ids_free(&ids);
        hil_text_free(&text);
        if (status == HIL_OK) break;
        CHECK_INT(status, HIL_ERR_MEMORY);
        CHECK(strstr(hil_status_message(), "memory"));
    }
    CHECK(n > 20);
}

/* After a failure the encoder begins a new document. */
static void test_unknown(void)
{
    static const char json[] =
        "{\"model\":{\"unk_token\":\"?\",\"vocab\":{\"a\":0},\"merges\":[]}}";
    hil_tokenizer *tokenizer;
    hil_encoder *encoder;
    hil_ids ids = {0};
    CHECK_OK(hil_tokenizer_parse(&tokenizer, json, strlen(json), "json"));
    CHECK_INT(hil_tokenizer_vocab(tokenizer), 1);
    CHECK_INT(hil_tokenizer_id(tokenizer, "a"), 0);
    CHECK_INT(hil_tokenizer_id(tokenizer, "?"), -1);
    CHECK_OK(hil_encoder_create(&encoder, tokenizer));
    CHECK_OK(hil_encoder_add(encoder, "ab", 2, &ids));
    CHECK_FAILS(hil_encoder_end(encoder, &ids), HIL_ERR_INPUT, "unknown token \"?\"");
    ids.size = 0;
    CHECK_OK(hil_encoder_add(encoder, "a", 1, &ids));
    CHECK_OK(hil_encoder_end(encoder, &ids));
    CHECK_INT(ids.size, 1);
    hil_encoder_destroy(encoder);
    hil_tokenizer_close(tokenizer);
    hil_ids_free(&ids);
}

int main(void)
{
    test_syntax();
    test_model();
    test_components();
    test_memory();
    test_unknown();
    return 0;
}
