package retrieval_harness;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/** Texts as bytes: their number, the length of each (-1 for null), as little-endian int32, then their UTF-8. */
final class Texts {
  private Texts() {}

  static String[] read(byte[] content) {
    ByteBuffer ints = ByteBuffer.wrap(content).order(ByteOrder.LITTLE_ENDIAN);
    String[] found = new String[ints.getInt()];
    int start = 4 * (1 + found.length);
    for (int place = 0; place < found.length; place++) {
      int length = ints.getInt();
      found[place] = length < 0 ? null : new String(content, start, length, StandardCharsets.UTF_8);
      start += Math.max(length, 0);
    }
    return found;
  }

  static byte[] written(String[] texts) {
    byte[][] parts = new byte[texts.length][];
    int bytes = 4 * (1 + texts.length);
    for (int place = 0; place < parts.length; place++) {
      parts[place] = texts[place] == null ? null : texts[place].getBytes(StandardCharsets.UTF_8);
      bytes += parts[place] == null ? 0 : parts[place].length;
    }
    ByteBuffer answer = ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN).putInt(parts.length);
    for (byte[] part : parts) {
      answer.putInt(part == null ? -1 : part.length);
    }
    for (byte[] part : parts) {
      if (part != null) {
        answer.put(part);
      }
    }
    return answer.array();
  }
}
