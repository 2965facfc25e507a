/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * I/O ports from the guest's shell, for kernels without /dev/port:
 *
 *     port out PORT VALUE             one byte
 *     port cmos INDEX [VALUE]         read (printed in decimal) or write a byte of the RTC's memory
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>

#define CMOS_INDEX 0x70
#define CMOS_DATA  0x71

static unsigned short number(const char *text)
{
    return (unsigned short)strtoul(text, NULL, 0);
}

int main(int argc, char **argv)
{
    if (argc < 3 || iopl(3) < 0) {
        fputs("port: needs root and a command\n", stderr);
        return 1;
    }
    if (strcmp(argv[1], "out") == 0 && argc == 4) {
        outb((unsigned char)number(argv[3]), number(argv[2]));
    } else if (strcmp(argv[1], "cmos") == 0) {
        outb((unsigned char)number(argv[2]), CMOS_INDEX);
        if (argc == 4) {
            outb((unsigned char)number(argv[3]), CMOS_DATA);
        } else {
            printf("%u\n", inb(CMOS_DATA));
        }
    } else {
        return 1;
    }
    return 0;
}
