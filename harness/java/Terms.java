package retrieval_harness;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntFunction;
import java.util.stream.IntStream;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.tokenattributes.TermToBytesRefAttribute;
import org.apache.lucene.util.BytesRef;

/**
 * The terms of many texts in one call, on all cores: as bytes, or counted under numbers.
 *
 * <p>Texts come as the bytes of an Arrow column: UTF-8, and where each text begins (and the last ends) as int32. Answers
 * are int32, little-endian, with bytes of terms behind them. A term is what Lucene's indexer would store.
 */
public final class Terms {
  private final Analyzer analyzer;
  private final ConcurrentHashMap<BytesRef, Integer> numbers = new ConcurrentHashMap<>();
  private final AtomicInteger next = new AtomicInteger();

  public Terms(Analyzer analyzer) {
    this.analyzer = analyzer;
  }

  /** The number of terms of each text, the length of each term, then their bytes. */
  public byte[] analyze(byte[] texts, byte[] starts) {
    BytesRef[][] found = each(starts, text -> terms(text(texts, starts, text))).toArray(BytesRef[][]::new);
    int[] lengths = Arrays.stream(found).mapToInt(terms -> terms.length).toArray();
    return written(lengths, Arrays.stream(found).flatMap(Arrays::stream).toArray(BytesRef[]::new));
  }

  /** The number of distinct terms of each text, then the number of each term, then how often the text has it. */
  public byte[] count(byte[] texts, byte[] starts) {
    int[][] found = each(starts, text -> counted(text(texts, starts, text))).toArray(int[][]::new);
    int pairs = Arrays.stream(found).mapToInt(text -> text.length / 2).sum();
    ByteBuffer answer = buffer(4 * (found.length + 2 * pairs));
    for (int[] text : found) {
      answer.putInt(text.length / 2);
    }
    for (int part = 0; part < 2; part++) {
      for (int[] text : found) {
        for (int place = part; place < text.length; place += 2) {
          answer.putInt(text[place]);
        }
      }
    }
    return answer.array();
  }

  /** The counted terms in the order of their numbers, as {@link #analyze} gives those of one text. */
  public byte[] vocabulary() {
    BytesRef[] terms = new BytesRef[numbers.size()];
    numbers.forEach((term, number) -> terms[number] = term);
    return written(new int[] {terms.length}, terms);
  }

  private static <T> java.util.stream.Stream<T> each(byte[] starts, IntFunction<T> work) {
    return IntStream.range(0, starts.length / 4 - 1).parallel().mapToObj(work);
  }

  private static String text(byte[] texts, byte[] starts, int text) {
    ByteBuffer ints = ByteBuffer.wrap(starts).order(ByteOrder.LITTLE_ENDIAN);
    int start = ints.getInt(4 * text);
    return new String(texts, start, ints.getInt(4 * text + 4) - start, StandardCharsets.UTF_8);
  }

  private BytesRef[] terms(String text) {
    BytesRef[] found = new BytesRef[16];
    int size = 0;
    try (TokenStream stream = analyzer.tokenStream("contents", text)) {
      TermToBytesRefAttribute term = stream.getAttribute(TermToBytesRefAttribute.class);
      stream.reset();
      while (stream.incrementToken()) {
        if (size == found.length) {
          found = Arrays.copyOf(found, 2 * size);
        }
        found[size++] = BytesRef.deepCopyOf(term.getBytesRef());
      }
      stream.end();
    } catch (IOException error) {
      throw new java.io.UncheckedIOException(error);
    }
    return Arrays.copyOf(found, size);
  }

  /** Number and count of each distinct term, in turns. */
  private int[] counted(String text) {
    BytesRef[] terms = terms(text);
    int[] found = new int[terms.length];
    for (int place = 0; place < found.length; place++) {
      Integer number = numbers.get(terms[place]);
      found[place] = number != null ? number : numbers.computeIfAbsent(terms[place], term -> next.getAndIncrement());
    }
    Arrays.sort(found);
    int[] pairs = new int[2 * found.length];
    int end = 0;
    for (int place = 0; place < found.length; place++) {
      if (place > 0 && found[place] == found[place - 1]) {
        pairs[end - 1]++;
      } else {
        pairs[end++] = found[place];
        pairs[end++] = 1;
      }
    }
    return Arrays.copyOf(pairs, end);
  }

  private static byte[] written(int[] first, BytesRef[] terms) {
    int bytes = Arrays.stream(terms).mapToInt(term -> term.length).sum();
    ByteBuffer answer = buffer(4 * (first.length + terms.length) + bytes);
    Arrays.stream(first).forEach(answer::putInt);
    Arrays.stream(terms).forEach(term -> answer.putInt(term.length));
    Arrays.stream(terms).forEach(term -> answer.put(term.bytes, term.offset, term.length));
    return answer.array();
  }

  private static ByteBuffer buffer(int bytes) {
    return ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
  }
}
