/* Regular expressions match what Python's re.fullmatch does, and none takes long. */
#include "check.h"
#include "base/regex.h"

typedef struct row {
    const char *pattern, *text;
    bool matches;
} row;

/* Written by a script that calls re.fullmatch. */
static const row rows[] = {
    {"model\\.layers\\.\\d+\\.(self_attn|mlp)\\.(?:k|o|gate)_proj",
     "model.layers.0.self_attn.q_proj", false},
    {"model\\.layers\\.\\d+\\.(self_attn|mlp)\\.(?:k|o|gate)_proj",
     "model.layers.11.self_attn.k_proj", true},
    {"model\\.layers\\.\\d+\\.(self_attn|mlp)\\.(?:k|o|gate)_proj", "model.layers.1.mlp.gate_proj",
     true},
    {"model\\.layers\\.\\d+\\.(self_attn|mlp)\\.(?:k|o|gate)_proj", "model.layers.1.mlp.up_proj",
     false},
    {"model\\.layers\\.\\d+\\.(self_attn|mlp)\\.(?:k|o|gate)_proj", "lm_head", false},
    {".*\\.(q_proj|v_proj)", "model.layers.0.self_attn.q_proj", true},
    {".*\\.(q_proj|v_proj)", "model.layers.11.self_attn.k_proj", false},
    {".*\\.(q_proj|v_proj)", "model.layers.1.mlp.gate_proj", false},
    {".*\\.(q_proj|v_proj)", "model.layers.1.mlp.up_proj", false},
    {".*\\.(q_proj|v_proj)", "model.language.mlp.v_proj", true},
    {"(?:.*?(?:language).*?(?:self_attn|attention|mlp).*?(?:q_proj|v_proj).*?)|(?:\\bmodel\\."
     "layers\\.[\\d]{1,}\\.(?:self_attn|mlp)\\.(?:(?:q_proj|v_proj)))",
     "model.layers.0.self_attn.q_proj", true},
    {"(?:.*?(?:language).*?(?:self_attn|attention|mlp).*?(?:q_proj|v_proj).*?)|(?:\\bmodel\\."
     "layers\\.[\\d]{1,}\\.(?:self_attn|mlp)\\.(?:(?:q_proj|v_proj)))",
     "model.layers.11.self_attn.k_proj", false},
    {"(?:.*?(?:language).*?(?:self_attn|attention|mlp).*?(?:q_proj|v_proj).*?)|(?:\\bmodel\\."
     "layers\\.[\\d]{1,}\\.(?:self_attn|mlp)\\.(?:(?:q_proj|v_proj)))",
     "model.layers.1.mlp.gate_proj", false},
    {"(?:.*?(?:language).*?(?:self_attn|attention|mlp).*?(?:q_proj|v_proj).*?)|(?:\\bmodel\\."
     "layers\\.[\\d]{1,}\\.(?:self_attn|mlp)\\.(?:(?:q_proj|v_proj)))",
     "model.layers.1.mlp.up_proj", false},
    {"(?:.*?(?:language).*?(?:self_attn|attention|mlp).*?(?:q_proj|v_proj).*?)|(?:\\bmodel\\."
     "layers\\.[\\d]{1,}\\.(?:self_attn|mlp)\\.(?:(?:q_proj|v_proj)))",
     "model.language.mlp.v_proj", true},
    {"model\\.layers\\.[^0-3]\\..*", "model.layers.0.self_attn.q_proj", false},
    {"model\\.layers\\.[^0-3]\\..*", "model.layers.11.self_attn.k_proj", false},
    {"model\\.layers\\.[^0-3]\\..*", "model.layers.1.mlp.gate_proj", false},
    {"model\\.layers\\.[0-9]{1,2}\\.mlp\\.up_proj", "model.layers.0.self_attn.q_proj", false},
    {"model\\.layers\\.[0-9]{1,2}\\.mlp\\.up_proj", "model.layers.11.self_attn.k_proj", false},
    {"model\\.layers\\.[0-9]{1,2}\\.mlp\\.up_proj", "model.layers.1.mlp.gate_proj", false},
    {"model\\.layers\\.[0-9]{1,2}\\.mlp\\.up_proj", "model.layers.1.mlp.up_proj", true},
    {"q_proj", "model.layers.0.self_attn.q_proj", false},
    {"q_proj", "model.layers.11.self_attn.k_proj", false},
    {"q_proj", "model.layers.1.mlp.gate_proj", false},
    {"q_proj", "q_proj", true},
    {"(.*\\.)?(layers\\.1\\.mlp\\..*_proj)$", "model.layers.0.self_attn.q_proj", false},
    {"(.*\\.)?(layers\\.1\\.mlp\\..*_proj)$", "model.layers.11.self_attn.k_proj", false},
    {"(.*\\.)?(layers\\.1\\.mlp\\..*_proj)$", "model.layers.1.mlp.gate_proj", true},
    {"(.*\\.)?(layers\\.1\\.mlp\\..*_proj)$", "model.layers.1.mlp.up_proj", true},
    {"(.*\\.)?(layers\\.1\\.mlp\\..*_proj)$", "lm_head", false},
    {"^model.*k_proj$", "model.layers.0.self_attn.q_proj", false},
    {"^model.*k_proj$", "model.layers.11.self_attn.k_proj", true},
    {"^model.*k_proj$", "model.layers.1.mlp.gate_proj", false},
    {"^model.*k_proj$", "model.layers.1.mlp.up_proj", false},
    {"a|b|cd*", "model.layers.0.self_attn.q_proj", false},
    {"a|b|cd*", "model.layers.11.self_attn.k_proj", false},
    {"a|b|cd*", "model.layers.1.mlp.gate_proj", false},
    {"a|b|cd*", "a", true},
    {"a|b|cd*", "b", true},
    {"a|b|cd*", "cddd", true},
    {"a|b|cd*", "c", true},
    {"a|b|cd*", "b", true},
    {"", "model.layers.0.self_attn.q_proj", false},
    {"", "model.layers.11.self_attn.k_proj", false},
    {"", "model.layers.1.mlp.gate_proj", false},
    {"", "", true},
    {"(a|b)*c+?d{2,}", "model.layers.0.self_attn.q_proj", false},
    {"(a|b)*c+?d{2,}", "model.layers.11.self_attn.k_proj", false},
    {"(a|b)*c+?d{2,}", "model.layers.1.mlp.gate_proj", false},
    {"(a|b)*c+?d{2,}", "cddd", true},
    {"(a|b)*c+?d{2,}", "abccdd", true},
    {"x{2}y{,2}z{1,3}", "model.layers.0.self_attn.q_proj", false},
    {"x{2}y{,2}z{1,3}", "model.layers.11.self_attn.k_proj", false},
    {"x{2}y{,2}z{1,3}", "model.layers.1.mlp.gate_proj", false},
    {"x{2}y{,2}z{1,3}", "xxyyz", true},
    {"x{2}y{,2}z{1,3}", "xxzzz", true},
    {"[]a-]+", "model.layers.0.self_attn.q_proj", false},
    {"[]a-]+", "model.layers.11.self_attn.k_proj", false},
    {"[]a-]+", "model.layers.1.mlp.gate_proj", false},
    {"[]a-]+", "a", true},
    {"[]a-]+", "]a-", true},
    {"[]a-]+", "aaaa", true},
    {"[]a-]+", "aaa", true},
    {"[^]a]+", "model.layers.0.self_attn.q_proj", false},
    {"[^]a]+", "model.layers.11.self_attn.k_proj", false},
    {"[^]a]+", "model.layers.1.mlp.gate_proj", false},
    {"[^]a]+", "q_proj", true},
    {"[^]a]+", "model.embed_tokens", true},
    {"[^]a]+", "b", true},
    {"[^]a]+", "cddd", true},
    {"[^]a]+", "c", true},
    {"[^]a]+", "xxyyz", true},
    {"[^]a]+", "xxzzz", true},
    {"[^]a]+", "xxyyyz", true},
    {"[^]a]+", "bcd", true},
    {"[^]a]+", "12.x", true},
    {"[^]a]+", "b", true},
    {"\\w+\\.\\s?\\D", "model.layers.0.self_attn.q_proj", false},
    {"\\w+\\.\\s?\\D", "model.layers.11.self_attn.k_proj", false},
    {"\\w+\\.\\s?\\D", "model.layers.1.mlp.gate_proj", false},
    {"\\w+\\.\\s?\\D", "a. x", true},
    {"\\w+\\.\\s?\\D", "12.x", true},
    {"a{b}", "model.layers.0.self_attn.q_proj", false},
    {"a{b}", "model.layers.11.self_attn.k_proj", false},
    {"a{b}", "model.layers.1.mlp.gate_proj", false},
    {"a{b}", "a{b}", true},
    {"a{,}", "model.layers.0.self_attn.q_proj", false},
    {"a{,}", "model.layers.11.self_attn.k_proj", false},
    {"a{,}", "model.layers.1.mlp.gate_proj", false},
    {"a{,}", "", true},
    {"a{,}", "a", true},
    {"a{,}", "aaaa", true},
    {"a{,}", "aaa", true},
    {".", "model.layers.0.self_attn.q_proj", false},
    {".", "model.layers.11.self_attn.k_proj", false},
    {".", "model.layers.1.mlp.gate_proj", false},
    {".", "a", true},
    {".", "b", true},
    {".", "c", true},
    {".", "b", true},
    {"(?P<idx>\\d+)\\.x", "model.layers.0.self_attn.q_proj", false},
    {"(?P<idx>\\d+)\\.x", "model.layers.11.self_attn.k_proj", false},
    {"(?P<idx>\\d+)\\.x", "model.layers.1.mlp.gate_proj", false},
    {"(?P<idx>\\d+)\\.x", "12.x", true},
    {"\\Bb", "model.layers.0.self_attn.q_proj", false},
    {"\\Bb", "model.layers.11.self_attn.k_proj", false},
    {"\\Bb", "model.layers.1.mlp.gate_proj", false},
    {"a\\b", "model.layers.0.self_attn.q_proj", false},
    {"a\\b", "model.layers.11.self_attn.k_proj", false},
    {"a\\b", "model.layers.1.mlp.gate_proj", false},
    {"a\\b", "a", true},
    {"[\\w.]+proj", "model.layers.0.self_attn.q_proj", true},
    {"[\\w.]+proj", "model.layers.11.self_attn.k_proj", true},
    {"[\\w.]+proj", "model.layers.1.mlp.gate_proj", true},
    {"[\\w.]+proj", "model.layers.1.mlp.up_proj", true},
    {"[\\w.]+proj", "lm_head", false},
    {"[\\w.]+proj", "q_proj", true},
    {"[\\w.]+proj", "model.embed_tokens", false},
    {"[\\w.]+proj", "model.language.mlp.v_proj", true},
    {"[\\w.]+proj", "", false},
    {"(ab?){2,3}", "model.layers.0.self_attn.q_proj", false},
    {"(ab?){2,3}", "model.layers.11.self_attn.k_proj", false},
    {"(ab?){2,3}", "model.layers.1.mlp.gate_proj", false},
    {"(ab?){2,3}", "aab", true},
    {"(ab?){2,3}", "abab", true},
    {"(ab?){2,3}", "ababab", true},
    {"(ab?){2,3}", "aaa", true},
    {"((a|b){2}){1,2}", "model.layers.0.self_attn.q_proj", false},
    {"((a|b){2}){1,2}", "model.layers.11.self_attn.k_proj", false},
    {"((a|b){2}){1,2}", "model.layers.1.mlp.gate_proj", false},
    {"((a|b){2}){1,2}", "ab", true},
    {"((a|b){2}){1,2}", "abab", true},
    {"((a|b){2}){1,2}", "aaaa", true},
};

static const char *const refused[] = {"(a",
                                      "a)",
                                      "[a",
                                      "*a",
                                      "a**",
                                      "(?=a)",
                                      "(?!a)",
                                      "(?<=a)b",
                                      "\\1",
                                      "a\\",
                                      "[b-a]",
                                      "a{3,2}",
                                      "((((a{99}){99}){99}){99})",
                                      "\\q"};

int main(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        hil_regex *r;
        CHECK_OK(hil_regex_create(&r, rows[i].pattern, "test"));
        if (hil_regex_matches(r, rows[i].text) != rows[i].matches) {
            fprintf(stderr, "\"%s\" and \"%s\"\n", rows[i].pattern, rows[i].text);
            CHECK(false);
        }
        hil_regex_destroy(r);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i) {
        hil_regex *r;
        CHECK_FAILS(hil_regex_create(&r, refused[i], "test"), HIL_ERR_INPUT, "test: in the exp");
    }
    char text[3000], deep[400] = "";
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = 0;
    hil_regex *r;
    CHECK_OK(hil_regex_create(&r, "(a*)*(a|aa)+(a?){50}b", "test"));
    CHECK(!hil_regex_matches(r, text));
    hil_regex_destroy(r);
    memset(deep, '(', 200);
    CHECK_FAILS(hil_regex_create(&r, deep, "test"), HIL_ERR_INPUT, "too many groups");
    return 0;
}
