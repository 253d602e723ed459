package dsdagster.scalar;

import com.ibm.icu.lang.UCharacter;
import dsdagster.Expressions;
import java.io.Serializable;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Upper and lower case of texts, with the results of Spark's own functions. The class of Spark's functions fills a
 * table of all characters when it is loaded, which takes two seconds of processor time and is used for title case only.
 */
public final class LetterCase implements Serializable {
  private static final long serialVersionUID = 1L;

  private LetterCase() {}

  /** {@link #toUpper}. */
  public static Column upper(Column text) {
    return Expressions.call(new LetterCase(), "toUpper", DataTypes.StringType, true, text);
  }

  /** {@link #toLower}. */
  public static Column lower(Column text) {
    return Expressions.call(new LetterCase(), "toLower", DataTypes.StringType, true, text);
  }

  /** The text in upper case, by Unicode's rules for no language in particular. */
  public UTF8String toUpper(UTF8String text) {
    return text.isFullAscii()
        ? text.toUpperCaseAscii()
        : UTF8String.fromString(UCharacter.toUpperCase(text.toValidString()));
  }

  /** The text in lower case, by the same rules. */
  public UTF8String toLower(UTF8String text) {
    return text.isFullAscii()
        ? text.toLowerCaseAscii()
        : UTF8String.fromString(UCharacter.toLowerCase(text.toValidString()));
  }

  @Override
  public String toString() {
    return "letter_case";
  }
}
