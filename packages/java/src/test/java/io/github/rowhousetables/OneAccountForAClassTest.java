package io.github.rowhousetables;

import static org.junit.jupiter.api.Assertions.assertSame;

import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.extension.ExtendWith;

@ExtendWith(RowhouseExtension.class)
class OneAccountForAClassTest {
    private static RowhouseAccount ofClass;

    @BeforeAll
    static void keep(RowhouseAccount account) {
        ofClass = account;
    }

    @RepeatedTest(2)
    void testsShareWhatBeforeAllTakes(RowhouseAccount account) {
        assertSame(ofClass, account);
    }
}
