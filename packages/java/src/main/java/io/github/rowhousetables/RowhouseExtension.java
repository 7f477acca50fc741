package io.github.rowhousetables;

import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * Resolves parameters of the types {@link RowhouseAccount} and {@link RowhouseServer}, with one server for all tests of
 * the process.
 *
 * <p>Each test has an empty account, which its {@code @BeforeEach} methods share and which is deleted after the test.
 * If the constructor or a {@code @BeforeAll} method of a class has such a parameter, all tests of the class share that
 * account.
 */
public final class RowhouseExtension implements ParameterResolver {
    private static final Namespace NAMESPACE = Namespace.create(RowhouseExtension.class);

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        Class<?> type = parameter.getParameter().getType();
        return type == RowhouseAccount.class || type == RowhouseServer.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        RowhouseServer server = RowhouseServer.shared();
        if (parameter.getParameter().getType() == RowhouseServer.class) {
            return server;
        }
        // JUnit closes the account at the end of the test or of the class.
        return context.getStore(NAMESPACE).getOrComputeIfAbsent(RowhouseAccount.class, key -> server.newAccount());
    }
}
