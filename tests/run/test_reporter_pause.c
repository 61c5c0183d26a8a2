/* The thread that writes a run's page writes it well before the page takes the run for killed,
   however long a write takes, and rarely enough that it does not slow the run down. */
#include "run/reporter.h"

#include "check.h"

#include <stdlib.h>
#include <string.h>

/* Seconds after which the page's script says so. */
static double silence(void)
{
    static const char before[] = "const SILENT = ";
    hil_bytes page;
    char number[8] = "";
    CHECK_OK(hil_bytes_read(&page, HIL_TESTS "/../src/report/page.html"));
    const char *at = memmem(page.data, page.size, before, sizeof before - 1);
    CHECK(at != NULL);
    memcpy(number, at + sizeof before - 1, sizeof number - 1);
    hil_bytes_free(&page);
    return strtod(number, NULL);
}

int main(void)
{
    CHECK(silence() >= 60);
    CHECK(hil_reporter_pause(0) >= 10);
    CHECK(hil_reporter_pause(0.25) >= 200 * 0.25);
    for (double work = 1e-3; work < 1e4; work *= 2) CHECK(2 * hil_reporter_pause(work) < silence());
    return 0;
}
