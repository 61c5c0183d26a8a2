/* mutate.h - mutations that keep the structure of an input, so that they get past its first check.
 */
#ifndef HIL_FUZZ_MUTATE_H
#define HIL_FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>

/* Each changes `bytes` in place, which has room for `most`, and gives the new size. The same seed
   and bytes give the same result. */
size_t mutate_bytes(uint8_t *bytes, size_t size, size_t most, uint64_t seed);
size_t mutate_json(uint8_t *bytes, size_t size, size_t most, uint64_t seed);
size_t mutate_jsonl(uint8_t *bytes, size_t size, size_t most, uint64_t seed);
size_t mutate_safetensors(uint8_t *bytes, size_t size, size_t most, uint64_t seed);
size_t mutate_npy(uint8_t *bytes, size_t size, size_t most, uint64_t seed);

uint64_t mutate_next(uint64_t *state); /* splitmix64 */

/* Defines libFuzzer's mutator: three times in four the structured one, else its own. */
#define FUZZ_MUTATOR(mutate)                                                                       \
    size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t most);                             \
    size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t most, unsigned seed);       \
    size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t most, unsigned seed)        \
    {                                                                                              \
        if (seed % 4 == 0) return LLVMFuzzerMutate(bytes, size, most);                             \
        return mutate(bytes, size, most, seed / 4);                                                \
    }

#endif
