package dsdagster.session;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import py4j.Gateway;
import py4j.Protocol;
import py4j.ReturnObject;

/** Calls that Python has answered with names of its own, in one message. */
public final class DeferredCalls {
  private static final String END = String.valueOf(Protocol.END);

  private DeferredCalls() {}

  /**
   * Runs calls in order and keeps each result under the name that Python has given it.
   *
   * @param names of the results, with commas between them
   * @param calls in py4j's protocol: lines of the target, the method and the arguments, then the line that ends them
   * @param unused names that Python has forgotten meanwhile, with commas between them
   * @throws Throwable of the first call that fails; those behind it do not run
   */
  public static void run(Gateway gateway, String names, String calls, String unused) throws Throwable {
    Iterator<String> lines = Arrays.asList(calls.split("\n")).iterator();
    try {
      for (String name : names.split(",")) {
        gateway.putObject(name, invoke(gateway, lines.next(), lines.next(), arguments(gateway, lines)));
      }
    } finally {
      for (String name : unused.split(",")) {
        gateway.deleteObject(name);
      }
    }
  }

  private static List<Object> arguments(Gateway gateway, Iterator<String> lines) {
    List<Object> arguments = new ArrayList<>();
    for (String line = lines.next(); !line.equals(END); line = lines.next()) {
      arguments.add(Protocol.getObject(line, gateway));
    }
    return arguments;
  }

  private static Object invoke(Gateway gateway, String target, String method, List<Object> arguments)
      throws Throwable {
    ReturnObject answer;
    try {
      answer = gateway.invoke(method, target, arguments);
    } catch (RuntimeException problem) {
      throw Protocol.getRootThrowable(problem, false);
    }
    Object result = gateway.getObject(answer.getName());
    gateway.deleteObject(answer.getName());
    if (answer.isError()) {
      throw (Throwable) result;
    }
    return result;
  }
}
