/* Human-readable durations. */
#include "base/text.h"
#include "check.h"

#include <math.h>

static void check(double seconds, const char *words)
{
    char out[32];
    CHECK_TEXT(hil_text_seconds(out, seconds), words);
}

int main(void)
{
    check(0, "0 us");
    check(420e-6, "420 us");
    check(0.00142, "1.4 ms");
    check(0.0424, "42 ms");
    check(0.0996, "0.10 s");
    check(0.42, "0.42 s");
    check(2, "2.00 s");
    check(9.96, "10.0 s");
    check(59.94, "59.9 s");
    check(59.96, "1 min 0 s");
    check(200.2, "3 min 20 s");
    check(3599.4, "59 min 59 s");
    check(3599.6, "1.0 h");
    check(6.31e4, "17.5 h");
    check(47.9 * 3600, "47.9 h");
    check(14 * 86400., "14.0 days");
    check(3e9, "95.1 years");
    check(-1, "?");
    check(NAN, "?");
    check(INFINITY, "?");
    return 0;
}
