// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// Registers a photograph with a warped copy of itself: finds, by gradient descent through the grid sampler,
/// how the copy was warped, and undoes the difference.
///
///   register_photo PHOTO OUTPUT_FOLDER
///
/// The unknown is a small grid of nodes. Each node says from where in the photo to read; between the nodes
/// the grid sampler itself interpolates. One step of the descent is four calls:
///
///   nodes --GridSampler2D--> sampling grid --GridSampler2D--> warped photo --> squared error
///   nodes' gradient <--GridSampler2DBackward-- sampling grid's gradient <--GridSampler2DBackward-- its
///   gradient
///
/// From a small photo and few nodes, which find the coarse movement, it goes on to more of both.

#include <unistd.h>

#include <array>
#include <filesystem>

// jpeglib.h expects stdio.h before it.
#include <jpeglib.h>
#include <png.h>

#include "aclnnop/aclnn_grid_sampler2d.h"
#include "aclnnop/aclnn_grid_sampler2d_backward.h"
#include "example.h"

using example::Device;
using example::Handle;
using example::Operator;
using example::pi;
using example::Shape;
using example::Tensor;

namespace {

constexpr int64_t colors = 3;

// Parameters of the grid sampler, by their numbers in its interface.
constexpr int64_t bilinear = 0;
constexpr int64_t border_padding = 1;

// Its parameter alignCorners says where -1 and 1 lie. On the grid of nodes that is the outermost nodes, on a
// photo its edges, half a pixel further out than the outermost pixels' centres. Both are the same places.
constexpr bool align_nodes = true;
constexpr bool align_pixels = false;

// ---- Photos ----

/// Planes of red, green and blue, 0 to 1, rows from the top: [colors, height, width].
struct Photo {
  int64_t width, height;
  std::vector<float> planes;

  Photo(int64_t columns, int64_t rows) : width(columns), height(rows), planes(colors * columns * rows) {}

  float& at(int64_t color, int64_t row, int64_t column) {
    return planes[(color * height + row) * width + column];
  }
  float at(int64_t color, int64_t row, int64_t column) const {
    return planes[(color * height + row) * width + column];
  }
  Shape shape() const { return {1, colors, height, width}; }
};

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(EXIT_FAILURE);
}

/// From rows of pixels of three bytes.
Photo from_bytes(const std::vector<uint8_t>& bytes, int64_t width, int64_t height) {
  Photo photo(width, height);
  for (int64_t row = 0; row < height; ++row)
    for (int64_t column = 0; column < width; ++column)
      for (int64_t color = 0; color < colors; ++color)
        photo.at(color, row, column) = bytes[(row * width + column) * colors + color] / 255.0f;
  return photo;
}

Photo read_png(const std::string& path) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_file(&image, path.c_str())) fail(path + ": " + image.message);
  image.format = PNG_FORMAT_RGB;
  std::vector<uint8_t> bytes(PNG_IMAGE_SIZE(image));
  const png_color behind_transparent = {255, 255, 255};
  if (!png_image_finish_read(&image, &behind_transparent, bytes.data(), 0, nullptr))
    fail(path + ": " + image.message);
  return from_bytes(bytes, image.width, image.height);
}

/// libjpeg itself ends the program when the file is broken.
Photo read_jpeg(const std::string& path) {
  FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) fail(path + ": cannot be read");
  jpeg_decompress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&jpeg);
  jpeg_stdio_src(&jpeg, file);
  jpeg_read_header(&jpeg, TRUE);
  jpeg.out_color_space = JCS_RGB;
  jpeg_start_decompress(&jpeg);
  const int64_t width = jpeg.output_width, height = jpeg.output_height;
  std::vector<uint8_t> bytes(width * height * colors);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = &bytes[jpeg.output_scanline * width * colors];
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  jpeg_destroy_decompress(&jpeg);
  std::fclose(file);
  return from_bytes(bytes, width, height);
}

/// A PNG or JPEG file, told apart by their first bytes.
Photo read_photo(const std::string& path) {
  std::array<uint8_t, 4> signature = {};
  FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) fail(path + ": cannot be read");
  const size_t length = std::fread(signature.data(), 1, signature.size(), file);
  std::fclose(file);
  if (length == 4 && signature == std::array<uint8_t, 4>{0x89, 'P', 'N', 'G'}) return read_png(path);
  if (length == 4 && signature[0] == 0xFF && signature[1] == 0xD8) return read_jpeg(path);
  fail(path + ": neither a PNG nor a JPEG file");
}

void write_png(const Photo& photo, const std::string& path) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(photo.width);
  image.height = static_cast<png_uint_32>(photo.height);
  image.format = PNG_FORMAT_RGB;
  std::vector<uint8_t> bytes;
  for (int64_t row = 0; row < photo.height; ++row)
    for (int64_t column = 0; column < photo.width; ++column)
      for (int64_t color = 0; color < colors; ++color)
        bytes.push_back(
            static_cast<uint8_t>(std::lround(255 * std::clamp(photo.at(color, row, column), 0.0f, 1.0f))));
  if (!png_image_write_to_file(&image, path.c_str(), 0, bytes.data(), 0, nullptr))
    fail(path + ": " + image.message);
}

/// Averages squares of `factor` pixels a side; what is left over at the right and the bottom is cut off.
Photo shrink(const Photo& photo, int64_t factor) {
  Photo small(photo.width / factor, photo.height / factor);
  for (int64_t color = 0; color < colors; ++color)
    for (int64_t row = 0; row < small.height * factor; ++row)
      for (int64_t column = 0; column < small.width * factor; ++column)
        small.at(color, row / factor, column / factor) +=
            photo.at(color, row, column) / static_cast<float>(factor * factor);
  return small;
}

/// How far two photos differ, on average over the colors, in black on white and four times enlarged.
Photo difference(const Photo& a, const Photo& b) {
  Photo result(a.width, a.height);
  for (int64_t row = 0; row < a.height; ++row) {
    for (int64_t column = 0; column < a.width; ++column) {
      float sum = 0;
      for (int64_t color = 0; color < colors; ++color)
        sum += std::fabs(a.at(color, row, column) - b.at(color, row, column));
      for (int64_t color = 0; color < colors; ++color)
        result.at(color, row, column) = 1 - 4 * sum / static_cast<float>(colors);
    }
  }
  return result;
}

/// Root of the mean square, in steps of 1/255.
double rms_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * static_cast<double>(a[i] - b[i]);
  return 255 * std::sqrt(sum / static_cast<double>(a.size()));
}

// ---- Sampling grids: (x, y) of each pixel or node, -1 to 1 across the photo ----

/// The centre of pixel `index` of `size`.
float pixel_center(int64_t index, int64_t size) {
  return static_cast<float>(2 * index + 1) / static_cast<float>(size) - 1;
}

/// The grid that samples every pixel where it is: [height, width, 2].
std::vector<float> identity_grid(int64_t width, int64_t height) {
  std::vector<float> grid;
  for (int64_t row = 0; row < height; ++row)
    for (int64_t column = 0; column < width; ++column)
      grid.insert(grid.end(), {pixel_center(column, width), pixel_center(row, height)});
  return grid;
}

/// The warp to be found: a swirl and a wave, both fading out towards the edges of the photo.
std::vector<float> known_warp(int64_t width, int64_t height) {
  std::vector<float> grid = identity_grid(width, height);
  for (size_t i = 0; i < grid.size(); i += 2) {
    const double x = grid[i], y = grid[i + 1];
    const double fade = std::cos(pi / 2 * x) * std::cos(pi / 2 * y);
    grid[i] += static_cast<float>(fade * (-0.12 * y + 0.05 * std::sin(pi * (x + 2 * y))));
    grid[i + 1] += static_cast<float>(fade * (0.12 * x + 0.05 * std::sin(pi * (2 * x - y))));
  }
  return grid;
}

/// Lengths of the differences between two sampling grids, in pixels.
struct Displacement {
  double rms = 0;
  double largest = 0;
};

Displacement displacement_between(const std::vector<float>& a, const std::vector<float>& b, int64_t width,
                                  int64_t height) {
  Displacement displacement;
  double sum = 0;
  for (size_t i = 0; i < a.size(); i += 2) {
    const double length = std::hypot((a[i] - b[i]) * width / 2.0, (a[i + 1] - b[i + 1]) * height / 2.0);
    sum += length * length;
    displacement.largest = std::max(displacement.largest, length);
  }
  displacement.rms = std::sqrt(sum / (static_cast<double>(a.size()) / 2));
  return displacement;
}

// ---- The operators ----

Operator sample(const Device& device, aclTensor* input, aclTensor* grid, bool align_corners,
                aclTensor* output) {
  return Operator(device, "aclnnGridSampler2D", aclnnGridSampler2D, aclnnGridSampler2DGetWorkspaceSize, input,
                  grid, bilinear, border_padding, align_corners, output);
}

/// The mask says which of the two gradients is wanted; the other one's tensor is left alone.
Operator sample_backward(const Device& device, aclTensor* grad_output, aclTensor* input, aclTensor* grid,
                         bool align_corners, aclBoolArray* output_mask, aclTensor* input_grad,
                         aclTensor* grid_grad) {
  return Operator(device, "aclnnGridSampler2DBackward", aclnnGridSampler2DBackward,
                  aclnnGridSampler2DBackwardGetWorkspaceSize, grad_output, input, grid, bilinear,
                  border_padding, align_corners, output_mask, input_grad, grid_grad);
}

/// Bends a photo by a sampling grid.
Photo warp(const Device& device, const Photo& photo, const std::vector<float>& grid) {
  const Tensor<float> input(photo.shape(), photo.planes);
  const Tensor<float> grid_tensor({1, photo.height, photo.width, 2}, grid);
  const Tensor<float> output(photo.shape());
  const Operator forward = sample(device, input, grid_tensor, align_pixels, output);
  forward.enqueue();
  device.synchronize();
  Photo warped(photo.width, photo.height);
  warped.planes = output.download();
  return warped;
}

/// The nodes: `side` x `side` places to read from, as planes of x and y: [2, side, side].
struct Nodes {
  int64_t side;
  std::vector<float> places;

  Shape shape() const { return {1, 2, side, side}; }
};

/// Node 0 lies on the left or upper edge of the photo, the last one on the right or lower edge.
float node_place(int64_t index, int64_t side) {
  return 2 * static_cast<float>(index) / static_cast<float>(side - 1) - 1;
}

/// Nodes that read every place where it is.
Nodes identity_nodes(int64_t side) {
  Nodes nodes{side, {}};
  for (int64_t row = 0; row < side; ++row)
    for (int64_t column = 0; column < side; ++column) nodes.places.push_back(node_place(column, side));
  for (int64_t row = 0; row < side; ++row)
    nodes.places.insert(nodes.places.end(), side, node_place(row, side));
  return nodes;
}

/// More nodes for the same sampling grid: the old ones are interpolated at the places of the new ones.
Nodes refine(const Device& device, const Nodes& coarse, int64_t side) {
  std::vector<float> new_places;
  for (int64_t row = 0; row < side; ++row)
    for (int64_t column = 0; column < side; ++column)
      new_places.insert(new_places.end(), {node_place(column, side), node_place(row, side)});
  const Tensor<float> old_nodes(coarse.shape(), coarse.places);
  const Tensor<float> grid({1, side, side, 2}, new_places);
  const Tensor<float> output({1, 2, side, side});
  const Operator interpolate = sample(device, old_nodes, grid, align_nodes, output);
  interpolate.enqueue();
  device.synchronize();
  return {side, output.download()};
}

// ---- Registration ----

/// The four operators between nodes and error for one size of photo, with all their tensors.
class Level {
 public:
  Level(const Device& device, const Photo& photo, const Photo& target, const Shape& nodes_shape)
      : device_(device),
        target_(target.planes),
        width_(photo.width),
        height_(photo.height),
        nodes_(nodes_shape),
        pixels_({1, height_, width_, 2}, identity_grid(width_, height_)),
        grid_(pixels_.shape()),
        photo_(photo.shape(), photo.planes),
        warped_(photo.shape()),
        warped_grad_(photo.shape()),
        grid_grad_(pixels_.shape()),
        nodes_grad_(nodes_shape) {}

  /// Bends the photo by the nodes. Returns the RMS difference from the target, in steps of 1/255.
  double bend(const Nodes& nodes) {
    nodes_.upload(nodes.places);
    interpolate_nodes_.enqueue();
    sample_photo_.enqueue();
    device_.synchronize();
    bent_ = warped_.download();
    return rms_difference(bent_, target_);
  }

  /// Gradient, by the nodes of the last call of bend, of half the mean square difference.
  std::vector<float> gradient() {
    std::vector<float> warped_grad(bent_.size());
    for (size_t i = 0; i < bent_.size(); ++i)
      warped_grad[i] = (bent_[i] - target_[i]) / static_cast<float>(bent_.size());
    warped_grad_.upload(warped_grad);
    differentiate_photo_.enqueue();
    differentiate_nodes_.enqueue();
    device_.synchronize();
    return nodes_grad_.download();
  }

  /// The sampling grid of the last call of bend.
  std::vector<float> grid() const { return grid_.download(); }

 private:
  /// A sampling grid [1, height, width, 2], seen as planes of x and y [1, 2, height, width].
  Handle<aclTensor> as_planes(const Tensor<float>& grid) const {
    return grid.view({1, 2, height_, width_}, {2 * height_ * width_, 1, 2 * width_, 2});
  }

  static Handle<aclBoolArray> mask(bool input_grad, bool grid_grad) {
    const bool wanted[] = {input_grad, grid_grad};
    return {aclCreateBoolArray(wanted, 2), aclDestroyBoolArray};
  }

  const Device& device_;
  std::vector<float> target_;
  std::vector<float> bent_;
  int64_t width_, height_;

  Tensor<float> nodes_, pixels_, grid_, photo_, warped_;
  Tensor<float> warped_grad_, grid_grad_, nodes_grad_;
  Handle<aclTensor> grid_planes_ = as_planes(grid_);
  Handle<aclTensor> grid_grad_planes_ = as_planes(grid_grad_);
  Handle<aclBoolArray> only_input_grad_ = mask(true, false);
  Handle<aclBoolArray> only_grid_grad_ = mask(false, true);

  Operator interpolate_nodes_ = sample(device_, nodes_, pixels_, align_nodes, grid_planes_);
  Operator sample_photo_ = sample(device_, photo_, grid_, align_pixels, warped_);
  // A gradient that is not wanted needs a tensor of its shape all the same; it is not written.
  Operator differentiate_photo_ = sample_backward(device_, warped_grad_, photo_, grid_, align_pixels,
                                                  only_grid_grad_, photo_, grid_grad_);
  Operator differentiate_nodes_ = sample_backward(device_, grid_grad_planes_, nodes_, pixels_, align_nodes,
                                                  only_input_grad_, nodes_grad_, pixels_);
};

/// Gradient descent with steps scaled by the recent size of each gradient (Adam).
class Adam {
 public:
  explicit Adam(size_t count) : mean_(count), mean_square_(count) {}

  void step(std::vector<float>& parameters, const std::vector<float>& gradient, double rate) {
    constexpr double keep_mean = 0.9, keep_square = 0.99, tiny = 1e-12;
    ++steps_;
    for (size_t i = 0; i < parameters.size(); ++i) {
      mean_[i] += (1 - keep_mean) * (gradient[i] - mean_[i]);
      mean_square_[i] +=
          (1 - keep_square) * (gradient[i] * static_cast<double>(gradient[i]) - mean_square_[i]);
      // Both start at zero; this takes that out.
      const double mean = mean_[i] / (1 - std::pow(keep_mean, steps_));
      const double mean_square = mean_square_[i] / (1 - std::pow(keep_square, steps_));
      parameters[i] -= static_cast<float>(rate * mean / (std::sqrt(mean_square) + tiny));
    }
  }

 private:
  std::vector<double> mean_, mean_square_;
  int steps_ = 0;
};

/// One line that is rewritten on a terminal; elsewhere one line for each size of photo.
void print_progress(const Photo& photo, int64_t side, int step, int steps, double rms) {
  static const bool terminal = isatty(fileno(stdout));
  if (!terminal && step < steps) return;
  std::printf("%s%5lld x %lld pixels, %2lld x %lld nodes, step %3d of %d: RMS difference %6.2f of 255%s",
              terminal ? "\r" : "", static_cast<long long>(photo.width), static_cast<long long>(photo.height),
              static_cast<long long>(side), static_cast<long long>(side), step, steps, rms,
              step == steps ? "\n" : "");
  std::fflush(stdout);
}

/// How far to shrink the photo, how many nodes to move on it and in how many steps.
struct Stage {
  int64_t factor, side;
  int steps;
};
constexpr Stage stages[] = {{8, 5, 100}, {4, 9, 100}, {2, 17, 100}, {1, 25, 100}};

/// The sampling grid that bends `photo` into `target`.
std::vector<float> register_photo(const Device& device, const Photo& photo, const Photo& target) {
  Nodes nodes = identity_nodes(stages[0].side);
  std::vector<float> grid;
  for (const Stage& stage : stages) {
    const Photo small_photo = shrink(photo, stage.factor), small_target = shrink(target, stage.factor);
    nodes = refine(device, nodes, stage.side);
    Level level(device, small_photo, small_target, nodes.shape());
    Adam adam(nodes.places.size());
    // At first a quarter of a pixel a step, less and less towards the end.
    const double first_rate = 0.5 / static_cast<double>(std::max(small_photo.width, small_photo.height));
    level.bend(nodes);
    for (int step = 1; step <= stage.steps; ++step) {
      const double left = 1 - static_cast<double>(step) / stage.steps;
      adam.step(nodes.places, level.gradient(), first_rate * (0.02 + 0.98 * left * left));
      print_progress(small_photo, stage.side, step, stage.steps, level.bend(nodes));
    }
    grid = level.grid();
  }
  return grid;
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 3) fail("usage: register_photo PHOTO OUTPUT_FOLDER   (a PNG or JPEG file)");
  const std::filesystem::path folder = arguments[2];
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(folder.string() + ": " + error.message());
  constexpr int64_t longest_side = 800, shortest_side = 64;

  Photo photo = read_photo(arguments[1]);
  photo = shrink(photo, (std::max(photo.width, photo.height) + longest_side - 1) / longest_side);
  if (std::min(photo.width, photo.height) < shortest_side) fail("the photo is too small or too narrow");
  const int64_t width = photo.width, height = photo.height;

  const Device device;
  const std::vector<float> identity = identity_grid(width, height);
  const std::vector<float> true_grid = known_warp(width, height);
  const Photo target = warp(device, photo, true_grid);
  const std::vector<float> found_grid = register_photo(device, photo, target);
  const Photo registered = warp(device, photo, found_grid);

  write_png(photo, folder / "before.png");
  write_png(target, folder / "target.png");
  write_png(registered, folder / "after.png");
  write_png(difference(photo, target), folder / "difference_before.png");
  write_png(difference(registered, target), folder / "difference_after.png");

  const double rms_before = rms_difference(photo.planes, target.planes);
  const double rms_after = rms_difference(registered.planes, target.planes);
  const Displacement before = displacement_between(identity, true_grid, width, height);
  const Displacement after = displacement_between(found_grid, true_grid, width, height);
  std::printf("\n%-44s %10s %10s\n", "", "before", "after");
  std::printf("%-44s %10.2f %10.2f\n", "RMS difference from the target, of 255", rms_before, rms_after);
  std::printf("%-44s %10.2f %10.2f\n", "RMS error of the displacement, pixels", before.rms, after.rms);
  std::printf("%-44s %10.2f %10.2f\n", "largest error of the displacement, pixels", before.largest,
              after.largest);
  std::printf(
      "\nWritten to %s: before.png, target.png, after.png, difference_before.png, difference_after.png\n",
      folder.c_str());
  if (rms_after > rms_before / 4) fail("FAILED: the difference fell by less than a factor of four");
  return example::printed_all() ? EXIT_SUCCESS : EXIT_FAILURE;
}
