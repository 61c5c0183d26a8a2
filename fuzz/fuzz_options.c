/* fuzz_options.c - any text as a --config file of train: refused, or numbers within their ranges.
 */
#include "cli/command.h"
#include "cli/train_options.h"
#include "mutate.h"
#include "place.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
FUZZ_MUTATOR(mutate_json)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static char folder[PLACE_PATH], path[PLACE_PATH];
    if (!folder[0]) {
        place_make(folder);
        place_path(folder, "options.json", path);
    }
    place_write(path, bytes, size);
    hil_parsed parsed = {0};
    hil_train_values values = {0};
    char *arguments[] = {(char[]){"--config"},
                         path,
                         (char[]){"--model"},
                         (char[]){"m"},
                         (char[]){"--data"},
                         (char[]){"d"},
                         (char[]){"--out"},
                         (char[]){"o"},
                         NULL};
    hil_train_defaults(&values.run);
    if (hil_options_parse(&parsed, &hil_command_train, 8, arguments, &values) == HIL_OK) {
        const hil_train_options *run = &values.run;
        assert(run->seq >= 0 && run->batch > 0 && run->lr >= 0 &&
               run->memory.disk_count <= HIL_DISKS_MAX);
        assert(run->beta1 >= 0 && run->beta1 < 1 && run->beta2 < 1);
        assert(run->model && run->out && run->data_count > 0);
        for (size_t i = 0; i < run->memory.disk_count; ++i) assert(run->memory.disks[i].path);
    }
    hil_parsed_free(&parsed);
    return 0;
}
