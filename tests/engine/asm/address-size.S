/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Addresses of 32 bits in 64-bit mode wrap at 4 GiB before the segment base is added, which then leads
 * beyond; RSI, RDI and RCX of string instructions and loops are zero-extended. Results of 32 bits
 * clear the upper half, a CMOV not taken too; those of 16 and 8 bits keep it.
 *
 *     start  long
 *     event  #PF error=0 rip=beyond cr2=0x1fffffff0
 *     state  rax=0x11111111 rbx=2 r8=0xfffffffe r9=2 rsi=source+4 rdi=target+4 rcx=0
 *     state  r10=0 r11=0x0123456789ab1234 r12=0x01234567000000ff r13=0xffffffff00000000 r14=1
 *     state  dword[target]=0x11111111
 */
#include "long.inc"

    .set MSR_FS_BASE, 0xc0000100

    begin
    mov ecx, offset source + 0x100
    mov rax, 0x77777777ffffff00
    mov ebp, [eax + ecx]
    mov rdx, -1
    lea rbx, [edx + 3]
    lea r8d, [rdx - 1]
    write_msr MSR_FS_BASE, 0, 1
    mov edx, 0xfffffff0
    faults beyond, mov edx, fs:[edx]
    mov rsi, offset source
    bts rsi, 40
    mov rdi, offset target
    bts rdi, 40
    mov ecx, 1
    bts rcx, 40
    .byte 0x67                          /* ESI, EDI, ECX */
    rep movsd
    mov ecx, 2
    bts rcx, 40
again:
    inc r9
    .byte 0x67                          /* ECX */
    loop again
    mov r10, -1
    mov r10d, 0
    mov r13, -1
    test eax, eax
    cmovc r13d, eax                     /* not taken */
    shl r13, 32
    mov rdx, 0x0123456789abcdef
    mov r11, rdx
    mov r11w, 0x1234
    mov r12, 0x0123456700000000
    mov r12b, 0xff
    mov rax, -1
    xor ah, ah
    cmp rax, -0xff00 - 1
    sete r14b
    mov eax, ebp
done:
    hlt

    .balign 4
source:
    .long 0x11111111
target:
    .long 0
