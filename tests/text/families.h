/* families.h - the small tokenizers that tools/golden_tokenizers.py writes. */
#ifndef HIL_TESTS_TEXT_FAMILIES_H
#define HIL_TESTS_TEXT_FAMILIES_H

static const char *const families[] = {"gpt2",
                                       "gpt2-prefix",
                                       "llama3",
                                       "qwen2",
                                       "digits",
                                       "o200k",
                                       "llama2",
                                       "llama2-metaspace",
                                       "metaspace-split",
                                       "plain",
                                       "deepseek2",
                                       "deepseek3",
                                       "tekken",
                                       "deepseek-coder",
                                       "falcon",
                                       "gemma",
                                       "cohere",
                                       "bloom",
                                       "olmo2",
                                       "qwen3_5",
                                       "unigram-t5",
                                       "unigram-bytes",
                                       "unigram-some-bytes"};

#endif
