/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Guest code of the software engine's tests, assembled with them: snippet NAME … done. Each stands
 * at 0x20000 when it runs; what it names absolutely is said in numbers.
 */
    .intel_syntax noprefix
    .section .rodata

    .macro snippet name
    .globl snippet_\name
    .globl snippet_\name\()_end
    .balign 16
snippet_\name:
    .endm
    .macro done name
snippet_\name\()_end:
    .endm

    /* ---- The run loop ------------------------------------------------------------------------ */
    .code64

    snippet count_to_1000
    xor eax, eax
1:  inc eax
    cmp eax, 1000
    jne 1b
    hlt
    done count_to_1000

    /* An interrupt that waits comes after the instruction behind STI. */
    snippet sti_nop
    cli
    sti
    inc eax
    inc ebx
    hlt
    done sti_nop

    snippet sti_hlt
    cli
    sti
    hlt
    inc eax
    hlt
    done sti_hlt

    snippet sti_cli
    cli
    sti
    cli
    inc eax
    hlt
    done sti_cli

    snippet mov_ss
    cli
    push 0x202
    mov ecx, 0x10
    popfq
    mov ss, ecx
    inc eax
    inc ebx
    hlt
    done mov_ss

    snippet popf_enables
    cli
    push 0x202
    popfq
    inc eax
    hlt
    done popf_enables

    snippet step
    pushfq
    or dword ptr [rsp], 0x100
    popfq
    inc eax
    inc ebx
    hlt
    done step

    snippet breakpoint
    inc eax
    inc ebx
    inc ecx
    hlt
    done breakpoint

    snippet watch
    mov dword ptr [rsi], 5
    inc eax
    mov edx, [rsi]
    inc ebx
    hlt
    done watch

    snippet port
    mov edx, 0x3f8
    in al, dx
    mov ebx, eax
    mov eax, 0x77
    out dx, al
    hlt
    done port

    snippet ins
    mov edx, 0x1f0
    mov ecx, 3
    rep insw
    hlt
    done ins

    snippet ins_long
    mov ecx, 1000000
    rep insb
    hlt
    done ins_long

    snippet hypercall
    mov eax, 5
    vmcall
    inc ebx
    hlt
    done hypercall

    snippet forever
1:  inc rax
    jmp 1b
    done forever

    snippet pauses
1:  pause
    jmp 1b
    done pauses

    /* ---- Code that changes ------------------------------------------------------------------- */

    /* The immediate of the next instruction, in the block that runs. */
    snippet patch_ahead
    lea rdi, [rip + 1f]
    mov byte ptr [rdi + 1], 0x42
1:  mov eax, 1
    hlt
    done patch_ahead

    /* A loop whose increment changes each time. */
    snippet patch_loop
    lea rdi, [rip + 1f]
    xor eax, eax
    xor ecx, ecx
2:  inc ecx
    mov [rdi + 1], cl
1:  add al, 0
    cmp ecx, 100
    jne 2b
    hlt
    done patch_loop

    /* Data beside code: no block is hit. */
    snippet data_beside
    lea rdi, [rip + 1f]
    mov ecx, 1000
2:  add [rdi], ecx
    dec ecx
    jne 2b
    mov eax, [rdi]
    hlt
    .balign 4
1:  .long 0
    done data_beside

    /* Calls a function at rbx, patches it, calls it again. */
    snippet patch_function
    call rbx
    mov r8d, eax
    mov byte ptr [rbx + 1], 9
    call rbx
    hlt
    done patch_function

    /* Every other time the block at 1 stores into the one at 2, which the one at 3 jumps to. */
    snippet patch_successor
    lea rdi, [rip + 2f]
    xor ecx, ecx
    xor edx, edx
1:  test ecx, 1
    jnz 3f
    mov [rdi + 1], cl
3:  jmp 2f
    .skip 256
2:  mov eax, 0
    add edx, eax
    inc ecx
    cmp ecx, 40
    jne 1b
    hlt
    done patch_successor

    snippet function_1
    mov eax, 1
    ret
    done function_1

    /* Calls the function at rbx until it returns 9, counting. */
    snippet call_until_9
    xor r8d, r8d
1:  inc r8
    call rbx
    cmp eax, 9
    jne 1b
    hlt
    done call_until_9

    snippet count_locked
    mov ecx, 50000
1:  lock inc qword ptr [rsi]
    mov eax, 1
    lock xadd [rsi + 8], rax
2:  mov rax, [rsi + 16]
    lea rdx, [rax + 1]
    lock cmpxchg [rsi + 16], rdx
    jne 2b
    mov eax, 1
3:  xchg [rsi + 24], eax
    test eax, eax
    jne 3b
    inc qword ptr [rsi + 32]
    mov dword ptr [rsi + 24], 0
    dec ecx
    jne 1b
    hlt
    done count_locked

    /* ---- Faults ------------------------------------------------------------------------------ */

    snippet push_rax
    push rax
    hlt
    done push_rax

    snippet pop_rax
    pop rax
    hlt
    done pop_rax

    snippet call_next
    call 1f
1:  hlt
    done call_next

    snippet call_memory
    call [rsi]
    hlt
    done call_memory

    snippet push_memory
    push qword ptr [rsi]
    hlt
    done push_memory

    snippet return_to_rax
    push rax
    ret
    done return_to_rax

    snippet store_8
    mov [rsi], rax
    hlt
    done store_8

    snippet add_8
    stc
    adc [rsi], rax
    hlt
    done add_8

    snippet load_rbp
    mov rax, [rbp + 8]
    hlt
    done load_rbp

    snippet rep_movs
    rep movsb
    hlt
    done rep_movs

    snippet rep_stos
    rep stosd
    hlt
    done rep_stos

    snippet repe_cmps
    repe cmpsb
    hlt
    done repe_cmps

    snippet rep_movs_down
    std
    rep movsw
    cld
    hlt
    done rep_movs_down

    snippet jump_rax
    jmp rax
    done jump_rax

    snippet flags_then_fault
    cmp eax, eax
    mov rax, [rsi]
    hlt
    done flags_then_fault

    snippet lock_mov
    .byte 0xf0, 0x89, 0x06
    hlt
    done lock_mov

    snippet too_long
    .byte 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x90
    .byte 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66
    .byte 0x90
    done too_long

    snippet xchg_memory
    xchg [rsi], rax
    hlt
    done xchg_memory

    /* ---- 32 and 16 bits ---------------------------------------------------------------------- */
    .code32

    snippet fib_32
    mov eax, 15
    call 1f
    hlt
1:  cmp eax, 2
    jb 2f
    push eax
    dec eax
    call 1b
    pop ecx
    push eax
    lea eax, [ecx - 2]
    call 1b
    pop ecx
    add eax, ecx
2:  ret
    done fib_32

    snippet address_16_in_32
    mov ebx, 0xffff0000
    mov esi, 0x12340000
    mov bx, 0x3000
    mov si, 0xf000
    addr16 mov eax, [bx + si]
    hlt
    done address_16_in_32

    snippet wrap_32
    mov ebx, 0xfffffff0
    mov eax, [ebx + 0x3010]
    hlt
    done wrap_32

    snippet segment_32
    mov eax, [ds:0x1000]
    mov edx, [ds:0xffe]
    hlt
    done segment_32

    snippet pusha_32
    mov eax, 1
    mov ecx, 2
    mov edi, 7
    pusha
    xor eax, eax
    xor ecx, ecx
    xor edi, edi
    popa
    hlt
    done pusha_32

    snippet stack_16_in_32
    push ax
    pop bx
    pushfw
    popfw
    enter 8, 2
    leave
    hlt
    done stack_16_in_32

    snippet decimal
    mov eax, 0x19
    add al, 0x28
    daa
    mov ecx, eax
    mov eax, 0x0105
    aad
    mov edx, eax
    mov eax, 0x4f
    aam
    hlt
    done decimal

    snippet bound
    mov eax, 5
    bound eax, [esi]
    mov eax, 100
    bound eax, [esi]
    hlt
    done bound

    .code16

    snippet loop_16
    mov cx, 300
    xor ax, ax
1:  inc ax
    loop 1b
    jcxz 2f
    mov ax, 0xdead
2:  hlt
    done loop_16

    snippet int_16
    mov ax, 0x1234
    int 0x21
    hlt
    done int_16

    /* A stack of 16 bits leaves the upper half of ESP alone. */
    snippet stack_16
    mov esp, 0x70000
    push ax
    mov ebx, esp
    pop ax
    hlt
    done stack_16

    snippet limit_16
    mov bx, 0xffff
    mov ax, [bx]
    hlt
    done limit_16

    snippet far_16
    push cs
    call 1f
    mov bx, 7
    hlt
1:  mov ax, 5
    retf
    done far_16

    snippet strings_16
    mov si, 0xfffe
    mov di, 0x100
    mov cx, 4
    rep movsb
    hlt
    done strings_16

    /* ---- Device accesses --------------------------------------------------------------------- */
    .code64

    snippet device_strings
    mov ecx, 5
    rep insb
    mov ecx, 4
    rep outsw
    mov ecx, 3
    rep movsd
    mov eax, 0x11223344
    mov ecx, 3
    rep stosd
    mov ecx, 2
    rep lodsq
    mov ecx, 9
    repne scasb
    mov ecx, 4
    repe cmpsb
    hlt
    done device_strings

    snippet device_modify
    add [rsi], eax
    adc word ptr [rsi + 3], 0x55
    lock xadd [rsi], rax
    lock cmpxchg [rsi], rcx
    xchg [rsi + 5], rbx
    not byte ptr [rsi]
    lock bts dword ptr [rsi], ecx
    push qword ptr [rsi]
    pop rdx
    shl dword ptr [rsi], 3
    mov [rsi + 16], rdx
    cmp edx, [rsi]
    sete [rsi]
    hlt
    done device_modify

    snippet device_crossing
    mov rax, [rsi - 3]
    mov [rsi - 5], rax
    add [rsi - 1], ax
    movups xmm0, [rsi - 7]
    movups [rsi - 9], xmm0
    mov edx, 0x3f8
    in eax, dx
    hlt
    done device_crossing

    snippet device_xsave
    fxsave [rsi]
    fxrstor [rsi]
    xor edx, edx
    mov eax, 3
    xsave [rsi]
    hlt
    done device_xsave

    snippet device_push
    push qword ptr [rsi]
    hlt
    done device_push

    snippet device_divide
    div dword ptr [rsi]
    hlt
    done device_divide

    snippet device_read
    mov eax, [rsi]
    mov ebx, [rsi + 8]
    hlt
    done device_read

    snippet device_bad
    ud2
    done device_bad

    snippet device_sti
    sti
    nop
    nop
    hlt
    done device_sti

    snippet device_gather
    vpgatherqq ymm2, [rsi + ymm4], ymm3
    hlt
    done device_gather

    .code32

    snippet device_frames
    pusha
    popa
    enter 0, 31
    leave
    hlt
    done device_frames

    /* A branch of 16 bits has no handler, but a function. */
    snippet device_jump
    jmp word ptr [esi]
    done device_jump

    snippet device_again
    mov cx, [esi]
    mov ebx, [esi]
    hlt
    done device_again

    .code64
    .section .note.GNU-stack, "", @progbits
